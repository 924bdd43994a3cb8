// Keeps a page up to date while it is looked at: the server gives its sinks another number when something has changed,
// and the page asks for itself again. A hidden tab asks for nothing.
const address = document.currentScript.dataset.live;
const state = document.getElementById('live-state');
const lookEveryMs = 2_000;
// A server that has gone silently would be shown as live.
const answerWithinMs = 15_000;
// Ages grow.
const atLeastEveryMs = 30_000;
let seen = null;
let shownAtMs = Date.now();
let isAsking = false;

async function look() {
  if (document.hidden || isAsking) return;
  isAsking = true;
  try {
    const answer = await fetch(address, { signal: AbortSignal.timeout(answerWithinMs) });
    // Logged out: the page itself says so.
    if (answer.status === 401) return location.reload();
    if (!answer.ok) throw new Error(answer.statusText);
    const now = await answer.text();
    const isOld = (seen ?? now) !== now || Date.now() - shownAtMs > atLeastEveryMs;
    if (!isOld || (await refresh())) seen = now;
    say('· live');
  } catch {
    say('· not connected');
  } finally {
    isAsking = false;
  }
}

function say(text) {
  if (state.textContent !== text) state.textContent = text;
}

async function refresh() {
  // What a person is writing or has unfolded is not taken away.
  const main = document.getElementById('main');
  const isWriting = main.contains(document.activeElement) && document.activeElement.matches('input, select');
  if (isWriting || main.querySelector('details[open]') !== null) return false;
  const signal = AbortSignal.timeout(answerWithinMs);
  const answer = await fetch(location.href, { headers: { accept: 'text/html' }, signal });
  if (!answer.ok) return false;
  const next = new DOMParser().parseFromString(await answer.text(), 'text/html');
  replace(main, next.getElementById('main'));
  replace(document.querySelector('footer time'), next.querySelector('footer time'));
  shownAtMs = Date.now();
  return true;
}

function replace(old, now) {
  if (old === null || now === null || old.isEqualNode(now)) return;
  const focused = old.contains(document.activeElement) ? document.activeElement.getAttribute('href') : null;
  old.replaceWith(now);
  if (focused !== null) now.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
}

setInterval(() => void look(), lookEveryMs);
document.addEventListener('visibilitychange', () => void look());
void look();
