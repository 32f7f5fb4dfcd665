'use strict';
// Layout: x of each lane, y of each step, columns for overlapping bars.
const HEAD = 62;          // px, height of the names of the lanes
const MAX_HEIGHT = 8e6;   // px; browsers do not scroll much further
const QUIET = 1e9;        // ns without a step after which a gap is shown
const QUIET_ROOM = 22;    // px, height of such a gap

const place = {
  lanes: [],        // {x, ...lane}
  groups: [],       // paths: {path, left, right, clientBar, serverBar}
  ioZones: [],      // by client: {left, width, slots}
  storageZone: null,
  timeX: 8, tagX: 104, left: 160, textX: 0, width: 0,
  rowY: new Float64Array(0), height: 0, scale: 0, gaps: [],
};

// Gives each interval the lowest free column. Intervals must be sorted by their start.
function columns(intervals) {
  const free = [];
  let most = 0;
  for (const one of intervals) {
    let slot = free.findIndex((until) => until <= one.from);
    if (slot < 0) slot = free.length;
    free[slot] = one.to;
    one.slot = slot;
    most = Math.max(most, slot + 1);
  }
  return most;
}

// Index that finds the intervals that overlap a range of steps.
class Intervals {
  constructor(list) {
    this.list = list;
    this.buckets = new Map();
    for (const one of list) {
      for (let bucket = one.from >> 7; bucket <= one.to >> 7; ++bucket) {
        if (!this.buckets.has(bucket)) this.buckets.set(bucket, []);
        this.buckets.get(bucket).push(one);
      }
    }
  }
  touching(from, to) {
    const found = new Set();
    for (let bucket = from >> 7; bucket <= to >> 7; ++bucket) {
      for (const one of this.buckets.get(bucket) || []) if (one.from <= to && one.to >= from) found.add(one);
    }
    return found;
  }
}

// Returns the client of a request that only the server recorded.
function ownerOf(step) {
  const path = DATA.paths[S.path[step]];
  return path ? path.owner : -1;
}

const spans = {};
function makeSpans() {
  const requests = [];
  DATA.requests.forEach((r, io) => {
    if (r[0] >= 0) requests.push({io, from: r[0], to: r[1], open: r[2], write: r[3], failedOver: r[4], failed: r[5],
                                  client: r[8] >= 0 ? r[8] : ownerOf(r[0])});
  });
  requests.sort((a, b) => a.from - b.from);
  spans.clientSlots = new Map();
  for (const client of new Set(requests.map((one) => one.client)))
    spans.clientSlots.set(client, columns(requests.filter((one) => one.client === client)));
  spans.requests = new Intervals(requests);

  const storage = DATA.storageSpans.map(([io, from, to, open]) => ({io, from, to, open}));
  storage.sort((a, b) => a.from - b.from);
  spans.storageSlots = columns(storage);
  spans.storage = new Intervals(storage);

  const messages = [];
  for (let step = 0; step < COUNT; ++step) {
    if (S.shape[step] !== SEND || S.wire[step] < 0) continue;
    if (S.peer[step] > step) messages.push({from: step, to: S.peer[step], lane: S.wire[step]});
  }
  for (const lane of new Set(messages.map((one) => one.lane))) columns(messages.filter((one) => one.lane === lane));
  spans.messages = new Intervals(messages);

  spans.paths = new Intervals(DATA.pathSpans.map(([path, side, state, reason, from, to]) =>
    ({path, side, state, reason, from, to})).sort((a, b) => a.from - b.from));
  spans.alive = new Intervals(lifetimes());
}

// Returns the time spans in which the connection of each lane existed: from its first step to ConnectionClosed.
function lifetimes() {
  const open = new Map(), out = [];
  for (let step = 0; step < COUNT; ++step) {
    if (S.wire[step] < 0) continue;
    const key = S.file[step] + '/' + textOf(step, 'key');
    if (textOf(step, 'event') === 'ConnectionClosed') {
      const one = open.get(key);
      if (one) one.to = step;
      open.delete(key);
    } else if (!open.has(key)) {
      const one = {lane: S.wire[step], from: step, to: COUNT - 1};
      open.set(key, one);
      out.push(one);
    }
  }
  return out;
}

// Lanes that have a step on this page.
let busyLanes = null;
function findBusyLanes() {
  const busy = new Set();
  for (let step = 0; step < COUNT; ++step) {
    busy.add(S.lane[step]);
    if (S.wire[step] >= 0) busy.add(S.wire[step]);
  }
  return busy;
}

// Returns for each lane whether it is shown. Lanes without a step and lanes of hidden paths are not.
function wantedLanes() {
  busyLanes = busyLanes || findBusyLanes();
  const owners = new Set();
  const wanted = DATA.lanes.map((lane, index) => {
    const want = lane.kind === 'connection' && busyLanes.has(index) && !view.paths.has(lane.path);
    if (want || (lane.kind === 'client' && busyLanes.has(index) && !hiddenClient(lane.owner))) owners.add(lane.owner);
    return want;
  });
  return DATA.lanes.map((lane, index) => lane.kind === 'client' ? owners.size === 0 || owners.has(lane.owner)
                                       : lane.kind !== 'connection' || wanted[index]);
}

// Places the lanes side by side; closer together if there would be no room for labels.
function placeLanes(available) {
  putLanes(available, 26, 50);
  if (place.textX + 330 > available) putLanes(available, 15, 48);
}

function putLanes(available, pitch, gap) {
  let x = place.left;
  place.lanes = [];
  place.groups = [];
  place.ioZones = [];
  let group = null;
  const slotWidth = (slots) => Math.min(104, Math.max(14, slots * 5));
  const used = wantedLanes();
  DATA.lanes.forEach((lane, index) => {
    if (!used[index]) {
      place.lanes.push(Object.assign({x, index, unused: true}, lane));
      return;
    }
    if (lane.kind !== 'connection') group = null;
    if (lane.kind === 'client') {
      const slots = spans.clientSlots.get(lane.owner) || 1;
      const width = slotWidth(slots);
      if (place.groups.length > 0) x += 34;
      place.ioZones[lane.owner] = {left: x, width, slots, pitch: width / Math.min(slots, 26)};
      x += width + 26;
    } else if (lane.kind === 'connection' && (!group || group.path !== lane.path)) {
      x += group ? gap : 40;
      group = {path: lane.path, left: x - 16, right: x + 16};
      place.groups.push(group);
    } else if (lane.kind === 'connection') {
      x += pitch;
      group.right = x + 16;
    } else {
      x += lane.kind === 'storage' ? 62 : 60;
    }
    place.lanes.push(Object.assign({x, index}, lane));
    if (lane.kind === 'storage') {
      place.storageZone = {left: x + 8, width: slotWidth(spans.storageSlots), slots: spans.storageSlots};
      place.storageZone.pitch = place.storageZone.width / Math.min(Math.max(spans.storageSlots, 1), 26);
      x += place.storageZone.width + 8;
    }
  });
  place.textX = x + 30;
  place.width = Math.max(available, place.textX + 400);
}

function placeRows() {
  const rows = shown.length;
  place.rowY = new Float64Array(rows);
  place.gaps = [];
  if (view.mode === 'time' && rows > 0) {
    const first = S.at[shown[0]], last = S.at[shown[rows - 1]];
    const long = Math.max(1, last - first);
    // At zoom 20 the time view is as high as the row view.
    place.scale = Math.min(MAX_HEIGHT, rows * 20 * Math.pow(view.zoom / 20, 3)) / long;
    for (let row = 0; row < rows; ++row) place.rowY[row] = 16 + (S.at[shown[row]] - first) * place.scale;
    place.height = 48 + long * place.scale;
    return;
  }
  const step = Math.min(view.zoom, MAX_HEIGHT / Math.max(1, rows));
  let y = 4, next = 0;
  // Adds the rows of the gaps of the page up to a step.
  const missing = (row, before) => {
    for (; next < DATA.gaps.length && DATA.gaps[next].before <= before; ++next) {
      place.gaps.push({row, y: y + QUIET_ROOM / 2, missing: DATA.gaps[next]});
      y += QUIET_ROOM;
    }
  };
  for (let row = 0; row < rows; ++row) {
    const told = next;
    missing(row, shown[row]);
    if (next === told && row > 0 && S.at[shown[row]] - S.at[shown[row - 1]] >= QUIET) {
      place.gaps.push({row, y: y + QUIET_ROOM / 2, ns: S.at[shown[row]] - S.at[shown[row - 1]]});
      y += QUIET_ROOM;
    }
    place.rowY[row] = y + step / 2;
    y += step;
  }
  missing(rows, COUNT);
  place.height = y + 24;
}

// Returns y of a step. A hidden step is between its neighbours.
function yOf(step) {
  const row = rowOf[step];
  if (isShown[step]) return place.rowY[row];
  if (shown.length === 0) return 0;
  if (row === 0) return 0;
  if (row >= shown.length) return place.rowY[shown.length - 1] + view.zoom / 2;
  return (place.rowY[row - 1] + place.rowY[row]) / 2;
}

// Returns the first row at or below y.
function rowAt(y) {
  let low = 0, high = place.rowY.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (place.rowY[middle] < y) low = middle + 1; else high = middle;
  }
  return low;
}
const laneX = (lane) => place.lanes[lane] ? place.lanes[lane].x : place.left;
