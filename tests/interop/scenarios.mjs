// nats.js, unmodified, against our server: `node scenarios.mjs <scenario> <json options>`.
// A scenario ends with exit code 0 or throws.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { jetstream, jetstreamManager } from "@nats-io/jetstream";
import { Kvm } from "@nats-io/kv";
import { Objm } from "@nats-io/obj";
import {
  connect, credsAuthenticator, headers, nkeyAuthenticator, wsconnect,
} from "@nats-io/transport-node";

// Node.js has a WebSocket of its own only since version 22.
globalThis.WebSocket ??= (await import("ws")).WebSocket;

const encode = (text) => new TextEncoder().encode(text);

const scenarios = {
  async pubsub(nc) {
    const sub = nc.subscribe("js.*", { max: 100 });
    for (let i = 0; i < 100; i++) nc.publish(`js.${i}`, `${i}`);
    let n = 0;
    for await (const m of sub) assert.equal(m.string(), `${n++}`);
    assert.equal(n, 100);
  },
  async queue(nc) {
    const counts = [0, 0, 0];
    for (let i = 0; i < 3; i++) {
      nc.subscribe("work", { queue: "workers", callback: () => counts[i]++ });
    }
    for (let i = 0; i < 300; i++) nc.publish("work");
    await nc.flush();
    assert.equal(counts.reduce((a, b) => a + b), 300);
    assert.ok(counts.every((count) => count > 30), `${counts}`);
  },
  async request(nc) {
    nc.subscribe("svc", {
      callback: (_, m) => {
        const h = headers();
        h.set("Echo", m.headers.get("Ask"));
        h.append("Many", "1");
        h.append("Many", "2");
        m.respond(m.data.reverse(), { headers: h });
      },
    });
    const h = headers();
    h.set("Ask", "me");
    const reply = await nc.request("svc", encode("abc"), { headers: h, timeout: 3000 });
    assert.equal(reply.string(), "cba");
    assert.equal(reply.headers.get("Echo"), "me");
    assert.deepEqual(reply.headers.values("Many"), ["1", "2"]);
    await assert.rejects(() => nc.request("nobody", "", { timeout: 3000 }), /no responders/i);
    const many = await nc.requestMany("svc", "x", { maxMessages: 1, headers: h });
    for await (const m of many) assert.equal(m.string(), "x");
  },
  async drain(nc) {
    let n = 0;
    nc.subscribe("drain", { callback: () => n++ });
    for (let i = 0; i < 1000; i++) nc.publish("drain");
    await nc.drain();
    assert.equal(n, 1000);
    assert.ok(nc.isClosed());
  },
  async reconnect(nc) {
    const sub = nc.subscribe("still.here", { max: 1 });
    await nc.flush();
    console.log("ready");
    for await (const s of nc.status()) if (s.type === "reconnect") break;
    nc.publish("still.here", "back");
    for await (const m of sub) assert.equal(m.string(), "back");
  },
  async jetstream(nc) {
    const jsm = await jetstreamManager(nc);
    await jsm.streams.add({ name: "JS", subjects: ["orders.*"] });
    const js = jetstream(nc);
    for (let i = 0; i < 50; i++) {
      const ack = await js.publish(`orders.${i % 5}`, `${i}`, { msgID: `id-${i}` });
      assert.equal(ack.seq, i + 1);
    }
    assert.ok((await js.publish("orders.0", "again", { msgID: "id-0" })).duplicate);
    await jsm.consumers.add("JS", { durable_name: "d", ack_policy: "explicit" });
    const consumer = await js.consumers.get("JS", "d");
    let n = 0;
    for await (const m of await consumer.fetch({ max_messages: 50, expires: 3000 })) {
      assert.equal(m.string(), `${n++}`);
      m.ack();
    }
    assert.equal(n, 50);
    const ordered = await js.consumers.get("JS", { filter_subjects: "orders.1" });
    n = 0;
    for await (const m of await ordered.consume()) {
      n++;
      if (m.info.pending === 0) break;
    }
    assert.equal(n, 10);
  },
  async kv(nc) {
    const kv = await new Kvm(nc).create("bucket", { history: 5 });
    await kv.put("a.b", "1");
    await kv.put("a.b", "2");
    assert.equal((await kv.get("a.b")).string(), "2");
    await kv.delete("a.b");
    assert.equal((await kv.get("a.b")).operation, "DEL");
    await kv.create("c", "3");
    const keys = [];
    for await (const key of await kv.keys()) keys.push(key);
    assert.deepEqual(keys, ["c"]);
  },
  async obj(nc) {
    const os = await new Objm(nc).create("files");
    const data = new Uint8Array(500_000).map((_, i) => i % 251);
    await os.putBlob({ name: "big" }, data);
    assert.deepEqual(await os.getBlob("big"), data);
    assert.equal((await os.list()).length, 1);
  },
  async hello(nc) {
    const sub = nc.subscribe("hello", { max: 1 });
    nc.publish("hello", "x".repeat(200_000));
    for await (const m of sub) assert.equal(m.data.length, 200_000);
  },
};

const [name, json] = process.argv.slice(2);
const { seed, creds, ca, ws, ...options } = JSON.parse(json);
if (seed) options.authenticator = nkeyAuthenticator(encode(seed));
if (creds) options.authenticator = credsAuthenticator(readFileSync(creds));
if (ca) options.tls = { caFile: ca };
const nc = await (ws ? wsconnect(options) : connect(options));
await scenarios[name](nc);
if (!nc.isClosed()) await nc.close();
