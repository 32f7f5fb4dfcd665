'use strict';
// Data of the page, and queries: which steps are shown, and which match the search.
const DATA = JSON.parse(document.getElementById('data').textContent);
const S = DATA.steps;
const COUNT = S.at.length;
const SHAPES = ['point', 'send', 'receive', 'submit', 'complete', 'deliver', 'answer'];
const TONES = ['normal', 'good', 'warning', 'bad'];
const POINT = 0, SEND = 1, RECEIVE = 2, SUBMIT = 3, COMPLETE = 4, DELIVER = 5, ANSWER = 6;

const textOf = (step, column) => S.strings[S[column][step]];
const letterOf = (file) => String.fromCharCode(65 + file % 26);
const tagOf = (step) => letterOf(S.file[step]) + S.record[step];
const groupOf = (step) => DATA.groups[S.group[step]].name;

function duration(ns) {
  const size = Math.abs(ns);
  if (size < 1e3) return ns + ' ns';
  if (size < 1e6) return +(ns / 1e3).toFixed(1) + ' µs';
  if (size < 1e9) return +(ns / 1e6).toFixed(2) + ' ms';
  return +(ns / 1e9).toFixed(3) + ' s';
}
const seconds = (ns) => (ns / 1e9).toFixed(9);
function sizeWords(bytes) {
  return bytes >= 65536 && bytes % 1024 === 0 ? bytes / 1024 + ' KiB' : bytes + ' B';
}

// Order of the values: [first, last, open, write, failedOver, failed, bytes, permit, client, cut, took, device]. `first` and
// `last` are steps of the page, `cut` and `open` tell that the request begins or ends elsewhere. `took` is -1 without an end.
const requestOf = (step) => {
  const io = S.io[step];
  if (io < 0) return null;
  const r = DATA.requests[io];
  return {io, first: r[0], last: r[1], open: r[2], write: r[3], failedOver: r[4], failed: r[5], bytes: r[6],
          permit: r[7], client: r[8], cut: r[9], took: r[10], device: r[11]};
};
function stepsOfRequest(io) {
  if (!stepsOfRequest.index) {
    stepsOfRequest.index = new Map();
    for (let step = 0; step < COUNT; ++step) {
      if (S.io[step] < 0) continue;
      if (!stepsOfRequest.index.has(S.io[step])) stepsOfRequest.index.set(S.io[step], []);
      stepsOfRequest.index.get(S.io[step]).push(step);
    }
  }
  return stepsOfRequest.index.get(io) || [];
}

// Returns the note after the title: how long the step took.
function noteOf(step) {
  if (S.lost[step]) return 'never arrived';
  if (S.shape[step] === RECEIVE && S.peer[step] >= 0 && DATA.sameClock)
    return duration(S.at[step] - S.at[S.peer[step]]) + ' on the way';
  const request = requestOf(step);
  if (S.shape[step] === COMPLETE && request && request.took >= 0) return 'took ' + duration(request.took);
  return '';
}

// Settings of the user. All of them are in the URL, so that a view can be shared.
const view = {
  query: '', only: false, hidden: new Set(), paths: new Set(), devices: new Set(), mode: 'rows', zoom: 20, selected: -1, follow: false,
  theme: '',
};
for (const group of DATA.groups) if (!group.shown) view.hidden.add(group.name);

let shown = [];                            // steps shown in the diagram, in order
let rowOf = new Int32Array(COUNT + 1);     // index: step; number of shown steps before it
let isShown = new Uint8Array(COUNT);
let matches = [];                          // steps that the search found
let isMatch = new Uint8Array(COUNT);

const haystacks = new Array(COUNT);
function haystack(step) {
  if (haystacks[step] === undefined) {
    haystacks[step] = [tagOf(step), textOf(step, 'title'), textOf(step, 'event'), textOf(step, 'fields'),
                       textOf(step, 'key'), groupOf(step), S.mark[step], S.lost[step] ? 'lost never arrived' : '']
        .join('\n').toLowerCase();
  }
  return haystacks[step];
}

// Returns a function that matches a step: all words must occur. "A17" alone means this record; field=value must match
// the whole value.
function matcher(query) {
  const words = query.toLowerCase().split(/\s+/).filter((word) => word !== '');
  if (words.length === 0) return null;
  const tag = words.length === 1 && /^[a-z]\d+$/.test(words[0]) ? words[0] : null;
  return (step) => {
    if (tag) return tagOf(step).toLowerCase() === tag;
    const text = haystack(step);
    return words.every((word) => word.includes('=')
                           ? text.split('\n').some((line) => line === word || line.endsWith('.' + word))
                           : text.includes(word));
  };
}

// A client is hidden if all its paths are hidden.
function hiddenClient(owner) {
  const paths = DATA.paths.map((path, index) => path.owner === owner ? index : -1).filter((index) => index >= 0);
  return paths.length > 0 && paths.every((index) => view.paths.has(index));
}

const hiddenDevice = (step) => S.io[step] >= 0 && view.devices.has(DATA.requests[S.io[step]][11]);

function refilter() {
  const match = matcher(view.query);
  const followed = view.follow && view.selected >= 0 ? S.io[view.selected] : -1;
  const hiddenGroup = DATA.groups.map((group) => view.hidden.has(group.name));
  const hiddenLane = DATA.lanes.map((lane) => lane.kind === 'client' && hiddenClient(lane.owner));
  shown = [];
  matches = [];
  for (let step = 0; step < COUNT; ++step) {
    const found = match !== null && match(step);
    let show = !hiddenGroup[S.group[step]] && !view.paths.has(S.path[step]) && !hiddenLane[S.lane[step]] && !hiddenDevice(step);
    if (followed >= 0) show = S.io[step] === followed;
    if (view.only && match !== null) show = show && found;
    if (S.mark[step] !== '') show = true;
    isMatch[step] = found && show ? 1 : 0;
    if (isMatch[step]) matches.push(step);
    rowOf[step] = shown.length;
    isShown[step] = show ? 1 : 0;
    if (show) shown.push(step);
  }
  rowOf[COUNT] = shown.length;
}

const marked = [];
for (let step = 0; step < COUNT; ++step) if (S.mark[step] !== '') marked.push(step);

// Returns the first step at or after a time; COUNT if there is none.
function stepAt(time) {
  let low = 0, high = COUNT;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (S.at[middle] < time) low = middle + 1; else high = middle;
  }
  return low;
}

// Returns the gap of the page that has this time, or undefined.
const gapAt = (time) => DATA.gaps.find((gap) => time >= gap.from && time <= gap.to &&
    !(gap.before < COUNT && S.at[gap.before] <= time) && !(gap.before > 0 && S.at[gap.before - 1] >= time));

// Returns the step with the tag of a record, such as A17; -1 if there is none.
function stepOfTag(tag) {
  const file = tag.charCodeAt(0) - 65, record = Number(tag.slice(1));
  for (let step = 0; step < COUNT; ++step) if (S.file[step] === file && S.record[step] === record) return step;
  return -1;
}
