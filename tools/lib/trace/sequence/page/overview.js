'use strict';
// Overview of the whole trace on the right: density of steps, path states, and violations.
const overview = document.getElementById('overview');
let overviewImage = null;

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function drawOverviewImage() {
  const width = overview.clientWidth, height = overview.clientHeight, ratio = window.devicePixelRatio || 1;
  overview.width = width * ratio;
  overview.height = height * ratio;
  const image = document.createElement('canvas');
  image.width = overview.width;
  image.height = overview.height;
  const pen = image.getContext('2d');
  pen.scale(ratio, ratio);
  const toY = (y) => y / Math.max(1, place.height) * height;
  // One line per pixel. Its length is the number of steps, its colours are their groups.
  const kinds = DATA.groups.length;
  const lines = new Float64Array((height + 1) * kinds), sums = new Float64Array(height + 1);
  for (let row = 0; row < shown.length; ++row) {
    const y = Math.min(height, Math.floor(toY(place.rowY[row])));
    lines[y * kinds + S.group[shown[row]]] += 1;
    sums[y] += 1;
  }
  const most = Math.max(1, sums.reduce((a, b) => Math.max(a, b), 0));
  const bars = place.groups.length, left = 6 + bars * 6, room = width - left - 14;
  const colors = DATA.groups.map((group) => color('--group-' + group.name));
  const thick = Math.max(1, Math.min(3, height / Math.max(1, shown.length) * 0.7));
  for (let y = 0; y <= height; ++y) {
    for (let kind = 0, x = left; kind < kinds; ++kind) {
      const long = lines[y * kinds + kind] / most * room;
      pen.fillStyle = colors[kind];
      pen.fillRect(x, y, long, thick);
      x += long;
    }
  }
  for (const one of spans.paths.list) {
    const bar = place.groups.findIndex((group) => group.path === one.path);
    if (one.side !== 0 && DATA.pathSpans.some((span) => span[0] === one.path && span[1] === 0)) continue;
    pen.fillStyle = color('--state-' + one.state) || color('--dim');
    const from = toY(yOf(one.from));
    if (bar >= 0) pen.fillRect(3 + bar * 6, from, 4, Math.max(1, toY(yOf(one.to)) - from));
  }
  const line = (step, name, from, size) => {
    pen.fillStyle = color(name);
    pen.fillRect(from, Math.round(toY(yOf(step))) - 1, width - from, size);
  };
  for (const step of shown) if (S.lost[step] || S.tone[step] === 3) line(step, '--bad', width - 12, 2);
  for (const step of matches) line(step, '--match', width - 12, 2);
  for (const step of marked) line(step, '--violation', 0, 3);
  overviewImage = image;
}

function drawOverview() {
  if (!overviewImage) drawOverviewImage();
  const pen = overview.getContext('2d'), ratio = window.devicePixelRatio || 1;
  pen.setTransform(1, 0, 0, 1, 0, 0);
  pen.clearRect(0, 0, overview.width, overview.height);
  pen.drawImage(overviewImage, 0, 0);
  pen.scale(ratio, ratio);
  const height = overview.clientHeight, whole = Math.max(1, place.height);
  const top = scroller.scrollTop / whole * height;
  const size = Math.max(6, Math.min(1, (scroller.clientHeight - HEAD) / whole) * height);
  pen.fillStyle = color('--window');
  pen.fillRect(0, top, overview.clientWidth, size);
  pen.strokeStyle = color('--accent');
  pen.strokeRect(0.5, top + 0.5, overview.clientWidth - 1, size - 1);
}

function goToOverview(event) {
  const part = (event.clientY - overview.getBoundingClientRect().top) / overview.clientHeight;
  scroller.scrollTop = part * place.height - (scroller.clientHeight - HEAD) / 2;
}
overview.addEventListener('pointerdown', (event) => {
  overview.setPointerCapture(event.pointerId);
  goToOverview(event);
});
overview.addEventListener('pointermove', (event) => {
  if (event.buttons & 1) goToOverview(event);
});
