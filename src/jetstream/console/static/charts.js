// Two charts on a canvas: lines over time, and a sparkline.
const COLOURS = ["#2563eb", "#16a34a", "#d97706", "#9333ea", "#dc2626", "#0891b2", "#ca8a04", "#db2777"];

function prepare(canvas) {
  const scale = window.devicePixelRatio || 1, width = canvas.clientWidth || 110, height = canvas.clientHeight || 26;
  if (canvas.width !== Math.round(width * scale)) { canvas.width = Math.round(width * scale); canvas.height = Math.round(height * scale); }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  return [pen, width, height];
}
function line(pen, values, width, height, top, colour, fill) {
  if (values.length < 2) return;
  const step = width / (values.length - 1);
  pen.beginPath();
  values.forEach((v, i) => { const y = height - (v / top) * (height - 4) - 2; i ? pen.lineTo(i * step, y) : pen.moveTo(0, y); });
  pen.strokeStyle = colour; pen.lineWidth = 1.6; pen.stroke();
  if (fill) { pen.lineTo(width, height); pen.lineTo(0, height); pen.globalAlpha = 0.12; pen.fillStyle = colour; pen.fill(); pen.globalAlpha = 1; }
}
export function spark(canvas, values) {
  const [pen, width, height] = prepare(canvas);
  line(pen, values, width, height, Math.max(1, ...values), COLOURS[0], true);
}
export function lines(canvas, series) {
  const [pen, width, height] = prepare(canvas);
  const top = Math.max(1, ...series.flatMap((s) => s.values));
  const style = getComputedStyle(canvas);
  pen.fillStyle = style.color; pen.globalAlpha = 0.6; pen.font = "11px system-ui";
  pen.fillText(Math.round(top).toLocaleString("en-US") + "/s", 4, 12);
  pen.globalAlpha = 1;
  series.forEach((s, i) => line(pen, s.values, width, height - 16, top, COLOURS[i % COLOURS.length], series.length === 1));
  let x = 4;
  series.forEach((s, i) => {
    pen.fillStyle = COLOURS[i % COLOURS.length]; pen.fillRect(x, height - 10, 8, 8);
    pen.fillStyle = style.color; const text = s.name.slice(0, 18); pen.fillText(text, x + 12, height - 2); x += 24 + pen.measureText(text).width;
  });
}
