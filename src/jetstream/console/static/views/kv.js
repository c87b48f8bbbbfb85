import { del, enc, get, listen, post, put } from "../api.js";
import { act, bytes, command, h, number, show, table, toast, when } from "../dom.js";
import { go } from "../main.js";

export async function open(page, [bucket, ...rest]) {
  if (!bucket) return list(page);
  return one(page, bucket, rest.join("/"));
}

async function list(page) {
  const names = await get("/kv"), name = h("input", { placeholder: "bucket", "aria-label": "bucket" }), history = h("input", { type: "number", min: 1, max: 64, value: 5, "aria-label": "history" });
  show(page, h("h1", {}, "Key-value buckets"), table([{ title: "Bucket", cell: (n) => n }], names, (n) => go("kv", n)),
    h("form.row", { onsubmit: act(async () => { await post("/kv", { bucket: name.value, history: +history.value }); go("kv", name.value); }) }, name, history, h("button", {}, "Add bucket")), command("kv", "add", "BUCKET", "--history", 5));
}

async function one(page, bucket, picked) {
  const path = "/kv/" + enc(bucket), keysBox = h("div"), editor = h("section"), log = h("div"), filter = h("input", { placeholder: "filter, for example users.>", "aria-label": "filter" }), fresh = h("input", { placeholder: "new key", "aria-label": "new key" });
  const at = (key) => path + "/keys/" + key.split("/").map(enc).join("/");
  const loadKeys = async () => { const keys = await get(path + (filter.value ? "?filter=" + enc(filter.value) : "")); show(keysBox, table([{ title: number(keys.length) + " keys", cell: (k) => k }], keys, edit)); };
  const edit = act(async (key) => {
    const history = await get(at(key)).catch((p) => { if (p.status === 400 || p.status === 404) return []; throw p; });
    const now = history[0], gone = !now || now.operation !== "PUT";
    const text = h("textarea", { "aria-label": "value", spellcheck: "false" }); text.value = gone ? "" : now.text ?? atob(now.base64);
    show(editor, h("h2", {}, key), h("p.quiet", {}, now ? `revision ${now.revision}, ${when(now.time_ms)}` : "new key"), text,
      h("div.row", {}, h("button", { onclick: act(async () => { const { revision } = await put(at(key), { text: text.value, revision: now ? now.revision : 0 }); toast(`saved as revision ${revision}`); await edit(key); await loadKeys(); }) }, "Save"),
        h("button.plain", { onclick: act(async () => { await del(at(key)); toast("deleted"); await edit(key); await loadKeys(); }) }, "Delete"), h("button.danger", { onclick: act(async () => { if (!confirm("Remove the key and its history?")) return; await del(at(key) + "?purge=1"); await loadKeys(); }) }, "Purge")),
      command(...(now ? ["kv", "update", bucket, key, "VALUE", now.revision] : ["kv", "create", bucket, key, "VALUE"])), h("h2", {}, "History"),
      table([{ title: "Revision", n: 1, cell: (e) => e.revision }, { title: "Operation", cell: (e) => e.operation }, { title: "When", cell: (e) => when(e.time_ms) }, { title: "Size", n: 1, cell: (e) => bytes(e.size) }, { title: "Value", cell: (e) => (e.text ?? "(binary)").slice(0, 120) }], history));
  });
  show(page, h("h1", {}, bucket), h("div.columns", {}, h("section", {}, h("form.row", { onsubmit: act(loadKeys) }, filter, h("button.plain", {}, "Filter")), keysBox, h("form.row", { onsubmit: act(async () => edit(fresh.value)) }, fresh, h("button", {}, "New key"))), editor), h("h2", {}, "Live changes"), log, command("kv", "watch", bucket));
  await loadKeys();
  if (picked) await edit(picked);
  const stop = listen(path + "/watch", { entry: (e) => { log.prepend(h("div", {}, h("span.quiet", {}, when(e.time_ms) + " "), h("b", {}, e.operation + " " + e.key), " " + (e.text ?? "").slice(0, 120))); while (log.children.length > 50) log.lastChild.remove(); } });
  return stop;
}
