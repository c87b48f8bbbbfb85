import { command, h, number, rate, show } from "../dom.js";
import { onModel } from "../main.js";

export function open(page) {
  const box = h("div");
  show(page, h("h1", {}, "Pipelines"), box, command("pipeline", "ls"));
  return onModel((m) => show(box, m.pipelines.length ? m.pipelines.map((p) => h("div.card", {}, h("div.row", {}, h("b", {}, p.name || p.query || p.key), h(p.error ? "span.tag.bad" : "span.tag.good", {}, p.state || (p.error ? "failed" : "running"))),
    h("dl", {}, [["input", p.input_rate ?? p.inputRowsPerSecond, rate], ["processed", p.processed_rate ?? p.processedRowsPerSecond, rate], ["batch", p.batch ?? p.batchId, number], ["batch takes", p.batch_ms ?? p.duration_ms, (v) => v + " ms"], ["latency", p.latency_ms, (v) => v + " ms"], ["lag", p.lag, number], ["rows", p.rows, number]].filter(([, v]) => typeof v === "number").map(([k, v, f]) => [h("dt", {}, k), h("dd", {}, f(v))])),
    p.error && h("pre", {}, typeof p.error === "string" ? p.error : JSON.stringify(p.error, null, 2)), h("details", {}, h("summary", {}, "Everything it reports"), h("pre", {}, JSON.stringify(p, null, 2))))) : h("p.quiet", {}, "no pipeline has reported yet")));
}
