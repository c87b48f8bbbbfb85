import { del, enc, get, upload } from "../api.js";
import { act, bytes, command, h, show, table, toast, when } from "../dom.js";
import { go } from "../main.js";

export async function open(page, [bucket]) {
  if (!bucket) {
    const names = await get("/objects");
    show(page, h("h1", {}, "Object stores"), table([{ title: "Bucket", cell: (n) => n }], names, (n) => go("objects", n)), command("object", "add", "BUCKET"));
    return;
  }
  const path = "/objects/" + enc(bucket), box = h("div"), file = h("input", { type: "file", "aria-label": "file" }), progress = h("progress", { max: 1, value: 0, hidden: true });
  const at = (name) => path + "/" + name.split("/").map(enc).join("/");
  const load = async () => show(box, table([{ title: "Name", cell: (o) => o.name }, { title: "Size", n: 1, cell: (o) => bytes(o.size) }, { title: "Changed", hide: 1, cell: (o) => when(o.time_ms) }, { title: "Digest", hide: 1, cell: (o) => h("code", {}, (o.digest || "").slice(0, 24)) },
    { title: "", cell: (o) => h("div.row", {}, h("a", { href: "/api" + at(o.name), download: "" }, "Download"), h("button.plain", { onclick: act(async () => { if (!confirm("Delete " + o.name + "?")) return; await del(at(o.name)); await load(); }) }, "Delete")) }], await get(path)));
  show(page, h("h1", {}, bucket), box, h("form.row", { onsubmit: act(async () => {
    const one = file.files[0]; if (!one) return;
    progress.hidden = false;
    try { await upload(at(one.name), one, (share) => { progress.value = share; }); toast("stored " + one.name); await load(); } finally { progress.hidden = true; }
  }) }, file, h("button", {}, "Upload")), progress, command("object", "put", bucket, "FILE"));
  await load();
}
