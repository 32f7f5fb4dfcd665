'use strict';
// The answer above the diagram: a verdict, and what happened, with links to the steps.
const REPORT = DATA.answer || null;
const ITEMS_SHOWN = 3;  // of a kind, before "more"

// Goes to the step of an item; if the page does not have it, to its time.
function goToItem(item) {
  const step = item.file >= 0 ? stepOfTag(letterOf(item.file) + item.record) : -1;
  if (step >= 0) {
    showGap(undefined);
    select(step, true);
    scroller.scrollTop = yOf(step) - (scroller.clientHeight - HEAD) * 0.3;
    redraw();
  } else {
    goToTime(item.at);
  }
}

function itemLink(parent, item) {
  const link = node(parent, 'button', 'link item', item.text);
  link.dataset.at = item.at;
  link.title = seconds(item.at) + ' s' + (item.file >= 0 ? ', record ' + letterOf(item.file) + item.record : '');
  link.addEventListener('click', () => goToItem(item));
}

function showRow(row) {
  const line = node(button('findings'), 'tr', 'finding');
  line.dataset.kind = row.kind;
  node(line, 'th', row.tone, row.label + (row.kind === 'slowest' || row.count === 1 ? '' : ' ' + row.count.toLocaleString('en')));
  const cell = node(line, 'td');
  row.items.slice(0, ITEMS_SHOWN).forEach((item) => itemLink(cell, item));
  const rest = row.items.slice(ITEMS_SHOWN);
  // An item of these rows stands for several requests.
  const others = ['failover', 'failed'].includes(row.kind) ? 0 : row.count - row.items.length;
  if (rest.length + others === 0) return;
  const more = node(cell, 'button', 'more', 'and ' + (rest.length + others).toLocaleString('en') + ' more');
  more.addEventListener('click', () => {
    more.remove();
    rest.forEach((item) => itemLink(cell, item));
    if (others > 0) node(cell, 'span', 'dim', others.toLocaleString('en') + ' others are not listed');
  });
}

function showAnswer() {
  if (!REPORT) return;
  button('answer').hidden = false;
  const verdict = button('verdict');
  verdict.className = REPORT.tone;
  verdict.textContent = REPORT.verdict;
  const rows = REPORT.rows.filter((row) => row.count > 0);
  rows.forEach(showRow);
  const absent = REPORT.rows.filter((row) => row.count === 0 && row.kind !== 'oracle' && (REPORT.judged || row.kind !== 'violation'));
  const list = (words, rows) => rows.length ? words + rows.map((row) => row.label).join(', ') + '. ' : '';
  button('nothing').textContent = list('None: ', absent.filter((row) => row.known)) +
      list('Not in a dump of the ring: ', absent.filter((row) => !row.known)) + (REPORT.judged ? '' : 'Violations: not judged (--check).');
}

// The step that the page shows first if nothing else is asked for: the most important item that is on the page.
function firstOfAnswer() {
  if (!REPORT) return -1;
  for (const row of REPORT.rows) {
    for (const item of row.items) {
      const step = item.file >= 0 ? stepOfTag(letterOf(item.file) + item.record) : -1;
      if (step >= 0 && isShown[step]) return step;
    }
  }
  return -1;
}

// --- steps that the page does not have ---

const missingWords = (gap) => gap.steps.toLocaleString('en') + ' steps from ' + (gap.from / 1e9).toFixed(3) + ' s to ' +
    (gap.to / 1e9).toFixed(3) + ' s are not in this page' + (REPORT && REPORT.command ? '; click for the command that draws them' : '');

function showGap(gap) {
  if (!gap || !REPORT || !REPORT.command) {
    if (details.querySelector('.gap-command')) showDetails();
    return;
  }
  view.selected = -1;
  showDetails();
  document.body.classList.add('with-details');
  const close = node(details, 'button', 'close', '×');
  close.addEventListener('click', () => select(-1, false));
  node(details, 'h2', '', 'Not in this page');
  node(details, 'p', '', gap.steps.toLocaleString('en') + ' steps from ' + seconds(gap.from) + ' s to ' + seconds(gap.to) +
       ' s. This command draws them:');
  node(details, 'pre', 'gap-command', REPORT.command + ' --from ' + seconds(gap.from) + ' --to ' + seconds(gap.to) +
       ' --html part-' + seconds(gap.from) + '.html');
}
bodySvg.addEventListener('click', (event) => {
  const target = event.target.closest('[data-gap]');
  if (target) showGap(DATA.gaps[Number(target.dataset.gap)]);
});
