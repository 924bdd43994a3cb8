// Keeps a page up to date while it is looked at: the server says when something has changed, and the page asks for
// itself again. A hidden tab listens to nothing.
const address = document.currentScript.dataset.live;
const state = document.getElementById('live-state');
let source = null;
let isAsking = false;

function listen() {
  source = new EventSource(address);
  source.addEventListener('open', () => say('· live'));
  source.addEventListener('change', () => void refresh());
  source.addEventListener('error', () => say('· not connected'));
}

function pause() {
  source?.close();
  source = null;
}

function say(text) {
  if (state.textContent !== text) state.textContent = text;
}

async function refresh() {
  // What a person is writing or has unfolded is not taken away.
  const main = document.getElementById('main');
  const isWriting = main.contains(document.activeElement) && document.activeElement.matches('input, select');
  if (isAsking || isWriting || main.querySelector('details[open]') !== null) return;
  isAsking = true;
  try {
    const answer = await fetch(location.href, { headers: { accept: 'text/html' } });
    // Logged out: the page itself says so.
    if (answer.status === 401) return location.reload();
    if (!answer.ok) return;
    const next = new DOMParser().parseFromString(await answer.text(), 'text/html');
    replace(main, next.getElementById('main'));
    replace(document.querySelector('footer time'), next.querySelector('footer time'));
  } catch {
    // The connection says what is wrong.
  } finally {
    isAsking = false;
  }
}

function replace(old, now) {
  if (old === null || now === null || old.isEqualNode(now)) return;
  const focused = old.contains(document.activeElement) ? document.activeElement.getAttribute('href') : null;
  old.replaceWith(now);
  if (focused !== null) now.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
}

document.addEventListener('visibilitychange', () => {
  pause();
  if (document.hidden) return;
  void refresh();
  listen();
});
if (!document.hidden) listen();
