import { del, enc, get, post } from "../api.js";
import { act, command, duration, h, number, rate, show, table, toast } from "../dom.js";
import { go, onModel } from "../main.js";

export async function open(page, [stream, name]) {
  return name ? one(page, stream, name) : list(page);
}

function list(page) {
  const box = h("div");
  show(page, h("h1", {}, "Consumers"), box);
  return onModel((m) => show(box, table([{ title: "Stream", cell: (c) => c.stream }, { title: "Name", cell: (c) => c.name }, { title: "Kind", hide: 1, cell: (c) => c.kind }, { title: "Lag", n: 1, cell: (c) => number(c.lag) }, { title: "Ack pending", n: 1, cell: (c) => number(c.pending) },
    { title: "Redelivered", n: 1, hide: 1, cell: (c) => number(c.redelivered) }, { title: "Waiting", n: 1, hide: 1, cell: (c) => number(c.waiting) }, { title: "Out", n: 1, cell: (c) => rate(c.out_rate) }, { title: "", cell: (c) => (c.paused ? h("span.tag.warn", {}, "paused") : "") }], m.consumers, (c) => go("consumers", c.stream, c.name))));
}

async function one(page, stream, name) {
  const path = `/streams/${enc(stream)}/consumers/${enc(name)}`;
  const top = h("div"), letters = h("section");
  const reset = h("input", { placeholder: "from sequence (empty: ack floor)", type: "number", "aria-label": "reset sequence" }), until = h("input", { type: "datetime-local", "aria-label": "pause until" });
  const load = async () => {
    const { info: i, explain } = await get(path);
    show(top, h("div.tiles", {}, [["lag", i.num_pending], ["ack pending", i.num_ack_pending], ["redelivered", i.num_redelivered], ["waiting pulls", i.num_waiting], ["delivered", i.delivered.stream_seq], ["ack floor", i.ack_floor.stream_seq]].map(([label, value]) => h("div.tile", {}, h("b", {}, number(value)), h("span", {}, label)))),
      explain && h("p.card", { id: "explain" }, explain.sentence || explain.explain || JSON.stringify(explain)), i.paused && h("p.card", {}, h("span.tag.warn", {}, "paused"), " for another " + duration(i.pause_remaining)),
      h("h2", {}, "Configuration"), h("pre", {}, JSON.stringify(i.config, null, 2)), command("consumer", "info", stream, name));
  };
  show(page, h("h1", {}, stream + " › " + name), top, h("h2", {}, "Actions"),
    h("form.row", { onsubmit: act(async () => { await post(path + "/pause", { pause_until: new Date(until.value || Date.now() + 3600e3).toISOString() }); toast("paused"); await load(); }) }, until, h("button", {}, "Pause"), h("button.plain", { type: "button", onclick: act(async () => { await post(path + "/resume"); toast("resumed"); await load(); }) }, "Resume")), command("consumer", "pause", stream, name, "1h"),
    h("form.row", { onsubmit: act(async () => { if (!confirm("Deliver again from there?")) return; await post(path + "/reset", { seq: reset.value ? +reset.value : undefined }); toast("reset"); await load(); }) }, reset, h("button", {}, "Reset …")), command("consumer", "reset", stream, name),
    h("div.row", {}, h("button.danger", { onclick: act(async () => { if (!confirm(`Delete consumer ${name}?`)) return; await del(path); toast("deleted"); go("consumers"); }) }, "Delete …")), command("consumer", "rm", stream, name), letters);
  await load();
  const dead = act(async () => {
    const found = await get(path + "/dead-letters");
    const rows = found.letters || found.messages || [];
    show(letters.lastChild, table([{ title: "Seq", n: 1, cell: (l) => l.seq ?? l.stream_seq }, { title: "Subject", cell: (l) => l.subject }, { title: "Reason", cell: (l) => l.reason }, { title: "Deliveries", n: 1, cell: (l) => l.deliveries }], rows),
      rows.length ? h("div.row", {}, h("button", { onclick: act(async () => { const r = await post(path + "/dead-letters", {}); toast(`redriven: ${r.redriven ?? r.count ?? "done"}`); }) }, "Redrive all")) : null, command("dlq", "ls", stream, name));
  });
  show(letters, h("h2", {}, "Dead letters"), h("button.plain", { onclick: dead }, "Show"), h("div"));
  const timer = setInterval(() => load().catch(() => {}), 2000);
  return () => clearInterval(timer);
}
