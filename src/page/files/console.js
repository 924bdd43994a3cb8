// Every page works without this script. It keeps a page up to date while it is looked at, asks in a dialog instead of
// on a page of its own, lets ages grow, and copies.

const refreshMs = 30_000;
let source = null;
let readAt = Date.now();

/** The server says that something has changed, and the page asks for itself again. A hidden tab listens to nothing. */
function listen() {
  source?.close();
  source = null;
  if (document.hidden || !document.body.dataset.live) return;
  source = new EventSource(document.body.dataset.live);
  source.addEventListener('change', () => void refresh());
  source.addEventListener('open', () => say('ok', 'Live'));
  source.addEventListener('error', () => say('bad', 'Not connected; read'));
}

function say(state, word) {
  const live = document.getElementById('live');
  if (live === null || live.classList.contains(state)) return;
  live.className = `state ${state}`;
  live.firstChild.textContent = `${word}, `;
}

async function refresh() {
  // What a person is writing, has selected or has unfolded is not taken away.
  const isBusy =
    document.querySelector('#main details[open], dialog') !== null ||
    document.activeElement.matches('#main :is(input, select)') ||
    getSelection().type === 'Range';
  const page = isBusy ? null : await read(location.href);
  if (page === null) return;
  const focused = document.activeElement.closest('#main a')?.getAttribute('href');
  for (const id of ['main', 'live']) {
    const [old, now] = [document.getElementById(id), page.getElementById(id)];
    if (old !== null && now !== null && !old.isEqualNode(now)) old.replaceWith(now);
  }
  document.title = page.title;
  if (focused)
    document.querySelector(`#main a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  showPage();
}

/** A page of this server; null if it cannot be had. Its links and forms lead where they lead from its own address. */
async function read(address) {
  const answer = await fetch(address, { headers: { accept: 'text/html' } }).catch(() => null);
  if (answer?.status === 401) location.reload();
  if (!answer?.ok) return null;
  const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
  if (answer.url === location.href) return page;
  for (const name of ['href', 'action']) {
    for (const one of page.querySelectorAll(`main [${name}]`)) {
      one.setAttribute(name, new URL(one.getAttribute(name), answer.url).href);
    }
  }
  return page;
}

/** Asks in a dialog what the page behind the link asks. Where that fails, the browser goes there. */
async function ask(link) {
  const form = (await read(link.href))?.querySelector('form.confirm');
  if (!form) return location.assign(link.href);
  const dialog = document.createElement('dialog');
  dialog.setAttribute('aria-label', form.querySelector('h1').textContent);
  dialog.append(form);
  dialog.addEventListener('close', () => {
    dialog.remove();
    link.focus();
  });
  document.body.append(dialog);
  dialog.showModal();
}

function showPage() {
  readAt = Date.now();
  // What only a browser with this script can do is hidden until here.
  for (const button of document.querySelectorAll('[data-copy]')) button.hidden = false;
}

/** By the clock of the server when the page was read, plus what passed here since: two clocks are never subtracted. */
function growAges() {
  const shown = document.querySelector('#live time');
  if (shown === null) return;
  const now = Date.parse(shown.dateTime) + Date.now() - readAt;
  for (const time of document.querySelectorAll('time[data-age]')) {
    const minutes = Math.floor((now - Date.parse(time.dateTime)) / 60_000);
    if (minutes < 1) continue;
    time.textContent =
      minutes < 120
        ? `${minutes} min`
        : minutes < 2880
          ? `${Math.round(minutes / 60)} h`
          : `${Math.round(minutes / 1440)} d`;
  }
}

function closeMenus(but = null) {
  for (const menu of document.querySelectorAll('.menu[open]')) if (!menu.contains(but)) menu.open = false;
}

document.addEventListener('click', (event) => {
  const { target } = event;
  closeMenus(target);
  const link = target.closest('a[data-dialog]');
  if (link !== null && !event.ctrlKey && !event.metaKey && !event.shiftKey) {
    event.preventDefault();
    void ask(link);
  }
  const close = target.closest('dialog [data-close]');
  if (close !== null) {
    event.preventDefault();
    close.closest('dialog').close();
  }
  const copy = target.closest('[data-copy]');
  if (copy !== null) {
    const text = document.querySelector(copy.dataset.copy).textContent;
    void navigator.clipboard.writeText(text).then(() => (copy.textContent = 'Copied'));
  }
});

document.addEventListener('keydown', ({ key, target }) => {
  if (key === 'Escape') {
    document.querySelector('.menu[open]:focus-within > summary')?.focus();
    closeMenus();
  }
  if (key === '/' && !target.matches('input, select, textarea')) {
    // After this key, so that it is not typed into the field.
    setTimeout(() => document.getElementById('find')?.focus());
  }
});

document.addEventListener('visibilitychange', () => {
  listen();
  if (!document.hidden && document.body.dataset.live) void refresh();
});

showPage();
listen();
setInterval(growAges, refreshMs);
