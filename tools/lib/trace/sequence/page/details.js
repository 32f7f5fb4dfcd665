'use strict';
// Details of the selected step, and a tooltip for the step under the pointer.
const details = document.getElementById('details');
const tip = document.getElementById('tip');

function node(parent, name, className, text) {
  const one = document.createElement(name);
  if (className) one.className = className;
  if (text !== undefined) one.textContent = text;
  if (parent) parent.appendChild(one);
  return one;
}

// Adds a table of the fields of a step. The parts of the connection key are joined.
function fieldsTable(parent, step, most) {
  const table = node(parent, 'table', 'fields');
  const row = (name, value) => {
    const line = node(table, 'tr');
    node(line, 'th', '', name);
    node(line, 'td', '', value);
  };
  const lines = textOf(step, 'fields').split('\n').filter((line) => line !== '');
  const key = textOf(step, 'key');
  if (key) row('connection', 'path ' + key.split('.')[0] + ', con ' + key.split('.')[1] + ', epoch ' + key.split('.')[2]);
  let left = most;
  for (const line of lines) {
    if (line.startsWith('key.')) continue;
    if (left-- <= 0) {
      row('…', 'click for all');
      break;
    }
    const at = line.indexOf('=');
    row(line.slice(0, at), line.slice(at + 1));
  }
}

const machineName = (step) => place.lanes[S.lane[step]] ? place.lanes[S.lane[step]].name : '';

function stepLink(parent, step, words) {
  const link = node(parent, 'button', 'link', words || tagOf(step));
  link.addEventListener('click', () => select(step, true));
  return link;
}

function showDetails() {
  details.replaceChildren();
  const step = view.selected;
  document.body.classList.toggle('with-details', step >= 0);
  if (step < 0) return;
  const close = node(details, 'button', 'close', '×');
  close.title = 'close (Esc)';
  close.addEventListener('click', () => select(-1, false));
  node(details, 'h2', TONES[S.tone[step]], textOf(step, 'title'));
  if (S.mark[step]) node(details, 'p', 'mark', 'Violation: ' + S.mark[step]);
  const file = DATA.files[S.file[step]];
  node(details, 'p', 'dim', textOf(step, 'event') + ' of the ' + machineName(step) + ', record ' + S.record[step] + ' of ' +
       letterOf(S.file[step]) + ' ' + file.name.split('/').pop());
  node(details, 'p', 'time', seconds(S.at[step]) + ' s' +
       (step > 0 ? '  (+' + duration(S.at[step] - S.at[step - 1]) + ')' : '') + '\nrecorded at ' + seconds(S.time[step]) + ' s');
  if (S.lost[step]) node(details, 'p', 'bad', 'The other side never saw it.');
  const peer = S.peer[step];
  if (peer >= 0) {
    const line = node(details, 'p', '', S.shape[step] === SEND ? 'arrives as ' : 'was sent as ');
    stepLink(line, peer);
    const took = S.shape[step] === SEND ? S.at[peer] - S.at[step] : S.at[step] - S.at[peer];
    line.append(DATA.sameClock ? ', ' + duration(took) + ' on the way' : ' (the clocks differ)');
  }
  fieldsTable(details, step, 1000);
  showRequest(step);
}

function showRequest(step) {
  const request = requestOf(step);
  if (!request) return;
  node(details, 'h3', '', (request.write ? 'Write ' : 'Read ') + sizeWords(request.bytes) + ', permit ' + request.permit);
  node(details, 'p', request.failed ? 'bad' : 'dim',
       (request.took >= 0 ? 'took ' + duration(request.took) : 'has no end in the traces') +
       (request.cut ? ', begins outside of this page' : '') +
       (request.open && request.took >= 0 ? ', ends outside of this page' : '') +
       (request.failedOver ? ', failed over' : '') + (request.failed ? ', failed' : ''));
  const list = node(details, 'ol', 'chain');
  let before = -1;
  for (const one of stepsOfRequest(request.io)) {
    const item = node(list, 'li', one === step ? 'here' : '');
    node(item, 'span', 'delta', before < 0 ? '' : '+' + duration(S.at[one] - S.at[before]));
    stepLink(item, one);
    node(item, 'span', '', machineName(one) + ': ' + textOf(one, 'title'));
    before = one;
  }
}

// Highlights the row of a step, which is drawn behind the step.
function lightUp(step) {
  for (const row of bodySvg.querySelectorAll('.row.hover')) row.classList.remove('hover');
  const row = step === undefined ? null : bodySvg.querySelector('.row[data-step="' + step + '"]');
  if (row) row.classList.add('hover');
}

function showTip(event) {
  const target = event.target instanceof Element ? event.target.closest('[data-words],[data-step]') : null;
  lightUp(target ? target.dataset.step : undefined);
  if (!target) {
    tip.hidden = true;
    return;
  }
  tip.replaceChildren();
  if (target.dataset.words) {
    node(tip, 'p', '', target.dataset.words);
  } else {
    const step = Number(target.dataset.step);
    node(tip, 'h2', TONES[S.tone[step]], textOf(step, 'title'));
    node(tip, 'p', 'dim', tagOf(step) + '  ' + textOf(step, 'event') + ' of the ' + machineName(step) + '  ' +
         seconds(S.at[step]) + ' s' + (noteOf(step) ? ', ' + noteOf(step) : ''));
    if (S.mark[step]) node(tip, 'p', 'mark', S.mark[step]);
    fieldsTable(tip, step, 14);
  }
  tip.hidden = false;
  const room = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(event.clientX + 16, window.innerWidth - room.width - 8)) + 'px';
  const below = event.clientY + 18;
  tip.style.top = (below + room.height > window.innerHeight ? Math.max(4, event.clientY - room.height - 12) : below) + 'px';
}
bodySvg.addEventListener('pointermove', showTip);
bodySvg.addEventListener('pointerleave', () => {
  tip.hidden = true;
  lightUp(undefined);
});
bodySvg.addEventListener('click', (event) => {
  const target = event.target.closest('[data-step]');
  if (target) select(Number(target.dataset.step), false);
});
