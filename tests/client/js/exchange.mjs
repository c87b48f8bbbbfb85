// The other side of test_interop_js.py: nats.js writes what our client reads, and the other way.
// Run with the working directory where the packages are installed.
import { createRequire } from "node:module";
import { createHash } from "node:crypto";

const require = createRequire(process.cwd() + "/");
const { connect, headers } = require("@nats-io/transport-node");
const { jetstream, jetstreamManager, AckPolicy } = require("@nats-io/jetstream");
const { Kvm } = require("@nats-io/kv");
const { Objm } = require("@nats-io/obj");

const [port, step] = process.argv.slice(2);
const nc = await connect({ port: Number(port) });
const js = jetstream(nc);
const jsm = await jetstreamManager(nc);

function reader(data) {
  return new ReadableStream({
    start(controller) {
      controller.enqueue(data);
      controller.close();
    },
  });
}

async function write() {
  await jsm.streams.add({ name: "JS", subjects: ["js.>"] });
  const h = headers();
  h.append("Key", "1");
  h.append("Key", "2");
  await js.publish("js.a", "from js", { headers: h, msgID: "m1" });
  await jsm.consumers.add("JS", { durable_name: "theirs", ack_policy: AckPolicy.Explicit });
  const kv = await new Kvm(js).create("JSKV", { history: 5 });
  await kv.put("a.b", "one");
  await kv.put("a.b", "two");
  await kv.put("gone", "x");
  await kv.delete("gone");
  await kv.put("purged", "x");
  await kv.purge("purged");
  const os = await new Objm(js).create("JSOBJ");
  const data = new Uint8Array(300_000).map((_, i) => i % 251);
  await os.put({ name: "blob/x y", description: "d" }, reader(data));
  await os.put({ name: "empty" }, reader(new Uint8Array(0)));
  await os.put({ name: "dead" }, reader(new Uint8Array(10)));
  await os.delete("dead");
  const info = await os.info("blob/x y");
  await os.link("link", info);
  return { digest: info.digest };
}

async function read() {
  const found = {};
  const c = await js.consumers.get("PY", "ours");
  const m = await c.next({ expires: 3000 });
  found.message = [m.subject, m.string(), m.headers.get("Key"), m.seq];
  m.ack();
  const kv = await new Kvm(js).open("PYKV");
  const e = await kv.get("k.1");
  found.entry = [e.string(), e.revision];
  found.keys = [];
  for await (const k of await kv.keys()) found.keys.push(k);
  found.history = [];
  for await (const h of await kv.history({ key: "h" })) found.history.push(h.operation);
  found.revision = await kv.update("k.1", "from js", e.revision);
  const os = await new Objm(js).open("PYOBJ");
  const data = await os.getBlob("blob 1>*");
  found.sha = createHash("sha256").update(data).digest("hex");
  found.info = (await os.info("blob 1>*")).metadata;
  found.names = (await os.list()).map((i) => i.name).sort();
  found.link = Buffer.from(await os.getBlob("link")).length;
  return found;
}

console.log(JSON.stringify(step === "write" ? await write() : await read()));
await nc.close();
