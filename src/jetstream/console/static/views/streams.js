import { call, del, enc, get, listen, post, put } from "../api.js";
import { act, bar, bytes, command, duration, h, limit, number, rate, show, table, toast, when } from "../dom.js";
import { lines } from "../charts.js";
import { go, onModel } from "../main.js";

export async function open(page, [name]) {
  return name ? one(page, name) : list(page);
}

function list(page) {
  const box = h("div"), wished = h("input", { placeholder: "name", "aria-label": "name" }), subjects = h("input", { placeholder: "subjects, for example orders.>", "aria-label": "subjects" });
  const add = h("form.row", { onsubmit: act(async () => {
    const config = { name: wished.value, subjects: subjects.value.split(/[ ,]+/).filter(Boolean), retention: "limits", storage: "file" };
    await post("/streams", config);
    toast("created " + wished.value); go("streams", wished.value);
  }) }, wished, subjects, h("button", {}, "Add stream"));
  show(page, h("h1", {}, "Streams"), box, h("h2", {}, "New"), add);
  return onModel((m) => show(box, table([{ title: "Name", cell: (s) => s.name }, { title: "Messages", n: 1, cell: (s) => number(s.messages) }, { title: "Size", n: 1, cell: (s) => bytes(s.bytes) }, { title: "Subjects", n: 1, hide: 1, cell: (s) => number(s.subjects) },
    { title: "Consumers", n: 1, hide: 1, cell: (s) => s.consumers }, { title: "Retention", hide: 1, cell: (s) => s.retention }, { title: "In", n: 1, cell: (s) => rate(s.in_rate) }], m.streams, (s) => go("streams", s.name))));
}

async function one(page, name) {
  const path = "/streams/" + enc(name);
  const { info, consumers } = await get(path);
  const state = h("div.card", { id: "state" }), chart = h("canvas"), browser = h("section"), subjects = h("section"), config = h("section"), danger = h("section");
  show(page, h("h1", {}, name), h("div.columns", {}, state, h("div.card", {}, chart)), browser, h("h2", {}, "Consumers"),
    table([{ title: "Name", cell: (c) => c.name }, { title: "Lag", n: 1, cell: (c) => number(c.num_pending) }, { title: "Ack pending", n: 1, cell: (c) => number(c.num_ack_pending) }, { title: "Filter", hide: 1, cell: (c) => c.config.filter_subject || (c.config.filter_subjects || []).join(" ") || "all" }], consumers, (c) => go("consumers", name, c.name)),
    subjects, config, danger);
  const draw = (s, c) => show(state, bar("Messages", s.messages, c.max_msgs), bar("Bytes", s.bytes, c.max_bytes, bytes), h("dl", {},
    h("dt", {}, "Sequences"), h("dd", {}, `${number(s.first_seq)} – ${number(s.last_seq)}`), h("dt", {}, "Subjects"), h("dd", {}, (c.subjects || []).join("  ") || "(mirror)"),
    h("dt", {}, "Keeps"), h("dd", {}, `${c.retention}, ${c.storage}, age ${duration(c.max_age)}, per subject ${limit(c.max_msgs_per_subject)}`), h("dt", {}, "Last message"), h("dd", {}, s.last_ts?.startsWith("0001") ? "never" : new Date(s.last_ts || 0).toLocaleString()),
    s.lost && h("dt", {}, "Damaged"), s.lost && h("dd.bad", {}, JSON.stringify(s.lost))), command("stream", "info", name));
  draw(info.state, info.config);
  const stopTail = messages(browser, path, name);
  subjectsTree(subjects, path, name);
  configuration(config, path, name, info.config);
  dangerous(danger, path, name);
  const stopModel = onModel((m) => {
    const mine = m.streams.find((s) => s.name === name);
    if (!mine) return;
    lines(chart, [{ name: "in", values: mine.spark }]);
    draw({ ...info.state, messages: mine.messages, bytes: mine.bytes, first_seq: mine.first_seq, last_seq: mine.last_seq, last_ts: mine.last_seq === info.state.last_seq ? info.state.last_ts : new Date(m.time_ms).toISOString() }, info.config);
  });
  return () => { stopModel(); stopTail(); };
}

function body(message, as) {
  if (message.base64 !== undefined) {
    const raw = atob(message.base64);
    if (as !== "hex") return `(${message.size} bytes, not text)\n` + hex(raw);
    return hex(raw);
  }
  if (as === "hex") return hex(String.fromCharCode(...new TextEncoder().encode(message.text.slice(0, 4096))));
  if (as === "json") { try { return JSON.stringify(JSON.parse(message.text), null, 2); } catch { return message.text; } }
  return message.text;
}
function hex(raw) {
  const rows = [];
  for (let i = 0; i < raw.length; i += 16) {
    const part = [...raw.slice(i, i + 16)];
    rows.push(i.toString(16).padStart(6, "0") + "  " + part.map((c) => c.charCodeAt(0).toString(16).padStart(2, "0")).join(" ").padEnd(48) + " " + part.map((c) => (c >= " " && c <= "~" ? c : ".")).join(""));
  }
  return rows.join("\n");
}

function messages(box, path, name) {
  let stop = () => {};
  const start = h("select", { "aria-label": "start" }, ["last", "first", "sequence", "time", "live"].map((s) => h("option", { value: s }, s)));
  const where = h("input", { placeholder: "sequence or time", "aria-label": "where" }), filter = h("input", { placeholder: "subject filter, for example orders.*", "aria-label": "filter" });
  const as = h("select", { "aria-label": "show as" }, ["json", "text", "hex"].map((s) => h("option", { value: s }, s)));
  const out = h("div", { id: "messages" }), same = h("div");
  const card = (m) => h("div.card", { "data-seq": m.seq }, h("div.row", {}, h("b", {}, "#" + number(m.seq)), h("span", {}, m.subject), h("span.quiet", {}, when(m.time_ms)), h("span.quiet", {}, bytes(m.size)),
    h("button.plain", { onclick: act(async (e) => { if (!confirm(`Erase message ${m.seq} of ${name}? Its bytes are overwritten.`)) return; await del(`${path}/messages/${m.seq}`); e.target.closest(".card")?.remove(); toast("erased message " + m.seq); }) }, "Erase")),
    Object.keys(m.headers).length ? h("pre", {}, Object.entries(m.headers).map(([k, v]) => `${k}: ${v.join(", ")}`).join("\n")) : null, h("pre", {}, body(m, as.value)));
  const load = act(async () => {
    stop(); stop = () => {};
    const query = new URLSearchParams({ filter: filter.value, limit: 50 });
    if (start.value === "live") {
      show(out, h("p.quiet", {}, "waiting for new messages …"));
      show(same, command("subscribe", "--stream", name, ...(filter.value ? [filter.value] : [])));
      stop = listen(`${path}/live?${query}`, { message: (m) => { out.prepend(card(m)); while (out.children.length > 200) out.lastChild.remove(); } });
      return;
    }
    query.set("start", start.value === "sequence" || start.value === "time" ? where.value : start.value);
    const found = await get(`${path}/messages?${query}`);
    show(out, found.length ? (start.value === "last" ? found.reverse() : found).map(card) : h("p.quiet", {}, "no messages"));
    show(same, command("stream", "view", name, ...(filter.value ? ["--subject", filter.value] : [])));
  });
  show(box, h("h2", {}, "Messages"), h("form.row", { onsubmit: load }, start, where, filter, as, h("button", {}, "Show")), same, out);
  load();
  return () => stop();
}

function subjectsTree(box, path, name) {
  const out = h("div");
  const load = act(async () => {
    const { total, subjects } = await get(path + "/subjects");
    const root = {};
    for (const [subject, count] of Object.entries(subjects)) {
      let at = root;
      for (const token of subject.split(".")) { at = (at.below ??= {})[token] ??= { count: 0 }; at.count += count; }
    }
    const branch = (node) => h("ul", {}, Object.entries(node.below || {}).sort((a, b) => b[1].count - a[1].count).map(([token, below]) => h("li", {}, below.below ? h("details", {}, h("summary", {}, `${token} `, h("span.quiet", {}, number(below.count))), branch(below)) : [token + " ", h("span.quiet", {}, number(below.count))])));
    show(out, h("p.quiet", {}, `${number(total)} subjects`), branch(root), command("stream", "subjects", name));
  });
  show(box, h("h2", {}, "Subjects"), h("button.plain", { onclick: load }, "Show tree"), out);
}

function configuration(box, path, name, config) {
  const before = JSON.stringify(config, null, 2);
  const text = h("textarea", { "aria-label": "configuration", spellcheck: "false" }, ""); text.value = before;
  const diff = h("pre", { hidden: true }), save = h("button", { disabled: true, onclick: act(async () => { await put(path, JSON.parse(text.value)); toast("saved"); go("streams", name); location.reload(); }) }, "Save");
  const review = h("button.plain", { onclick: act(async () => {
    const [a, b] = [config, JSON.parse(text.value)], rows = [];
    for (const key of new Set([...Object.keys(a), ...Object.keys(b)])) if (JSON.stringify(a[key]) !== JSON.stringify(b[key])) rows.push(h("div", {}, h("span.del", {}, `- ${key}: ${JSON.stringify(a[key])}`), "\n", h("span.add", {}, `+ ${key}: ${JSON.stringify(b[key])}`)));
    diff.hidden = false; save.disabled = !rows.length; show(diff, rows.length ? rows : "nothing changed");
  }) }, "Show changes");
  show(box, h("h2", {}, "Configuration"), h("details", {}, h("summary", {}, "Edit as JSON"), text, h("div.row", {}, review, save), diff, command("stream", "edit", name, "--config", "FILE.json")));
}

function dangerous(box, path, name) {
  const filter = h("input", { placeholder: "only this subject (optional)", "aria-label": "purge filter" }), keep = h("input", { placeholder: "keep newest", type: "number", min: 0, "aria-label": "keep" });
  const wish = () => ({ filter: filter.value || undefined, keep: keep.value ? +keep.value : undefined });
  const purge = act(async () => {
    const { would_purge } = await post(path + "/purge", { ...wish(), preview: true });
    if (!confirm(`Remove ${number(would_purge)} messages from ${name}?`)) return;
    const { purged } = await post(path + "/purge", wish());
    toast(`purged ${number(purged)} messages`);
  });
  show(box, h("h2", {}, "Maintenance"), h("form.row", { onsubmit: purge }, filter, keep, h("button.danger", {}, "Purge …")), command("stream", "purge", name),
    h("div.row", {}, h("a", { href: "/api" + path + "/backup", download: "" }, "Download backup"), h("button.danger", { onclick: act(async () => { if (prompt(`Type ${name} to delete the stream and all its messages`) !== name) return; await call(path, { method: "DELETE" }); toast("deleted " + name); go("streams"); }) }, "Delete stream …")), command("stream", "backup", name, "DIRECTORY"), command("stream", "rm", name));
}
