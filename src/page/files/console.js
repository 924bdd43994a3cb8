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
  source.addEventListener('open', say);
  source.addEventListener('error', say);
}

/** A stream that was cut connects again by itself; one that was refused is asked for again later. */
function say() {
  const live = document.getElementById('live');
  if (live === null || source === null) return;
  const isOpen = source.readyState === EventSource.OPEN;
  live.className = `state ${isOpen ? 'ok' : 'bad'}`;
  live.firstChild.textContent = isOpen ? 'Live, ' : 'Not connected; read, ';
}

let refreshing = null;
let isStale = false;

/** One at a time; the last of several requests in between counts. */
function refresh() {
  isStale = refreshing !== null;
  refreshing ??= renewPage().finally(() => {
    refreshing = null;
    if (isStale) void refresh();
  });
  return refreshing;
}

async function renewPage() {
  const page = await read(location.href);
  if (page === null) return;
  const focused = document.activeElement;
  const address = focused.closest('#main a')?.getAttribute('href');
  for (const id of ['main', 'live']) {
    const [old, now] = [document.getElementById(id), page.getElementById(id)];
    if (old !== null && now !== null) renew(old, now);
  }
  document.title = page.title;
  if (address && focused.getAttribute('href') !== address) {
    document.querySelector(`#main a[href="${CSS.escape(address)}"]`)?.focus({ preventScroll: true });
  }
  showPage();
}

/** Changes only what differs: focus, selection, scroll, open details and typed text stay where they are. */
function renew(old, now) {
  if (old.isEqualNode(now)) return;
  if (nameOf(old) !== nameOf(now)) return old.replaceWith(now);
  if (old.nodeType !== Node.ELEMENT_NODE) {
    old.nodeValue = now.nodeValue;
    return;
  }
  for (const { name } of Array.from(old.attributes)) {
    if (!now.hasAttribute(name) && name !== 'open') old.removeAttribute(name);
  }
  for (const { name, value } of now.attributes) {
    if (name !== 'open' && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  const spare = Map.groupBy([...old.childNodes], nameOf);
  const pairs = [...now.childNodes].map((one) => [one, spare.get(nameOf(one))?.shift()]);
  for (const gone of [...spare.values()].flat()) gone.remove();
  let place = old.firstChild;
  for (const [one, kept] of pairs) {
    if (kept && kept === place) place = place?.nextSibling ?? null;
    // In front of those that stay: only what has another order now is moved.
    else old.insertBefore(kept ?? one, place);
    if (kept) renew(kept, one);
  }
}

/** Name and address of a node: the row of another connector is another row. */
function nameOf(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return node.nodeName;
  const link = node.matches('a, form') ? node : node.querySelector('a[href]');
  const where = node.matches('main, section, div, ul, tbody, table') ? '' : link?.getAttribute('href');
  return `${node.nodeName} ${node.id} ${where ?? ''}`;
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
  const address = link.getAttribute('href');
  const form = (await read(link.href))?.querySelector('form.confirm');
  if (!form) return location.assign(link.href);
  if (document.querySelector('dialog') !== null) return;
  const dialog = document.createElement('dialog');
  dialog.setAttribute('aria-label', form.querySelector('h1').textContent);
  dialog.append(form);
  dialog.addEventListener('close', () => {
    dialog.remove();
    // The page may have been read again meanwhile.
    (link.isConnected ? link : document.querySelector(`a[href="${CSS.escape(address)}"]`))?.focus();
  });
  document.body.append(dialog);
  dialog.showModal();
}

function showPage() {
  readAt = Date.now();
  say();
  // Buttons that need this script are hidden until here.
  for (const button of document.querySelectorAll('[data-copy]')) button.hidden = false;
}

/** By the clock of the server when the page was read, plus what passed here since: two clocks are never subtracted. */
function growAges() {
  if (source?.readyState === EventSource.CLOSED) listen();
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
