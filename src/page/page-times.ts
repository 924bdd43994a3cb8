import { html, type SafeHtml } from '@remix-run/html-template';
import { instant, type Instant } from '../core/clock.ts';

/** `15:32` today, `27 Nov 22:28` this year, `3 Feb 2025` before, with the exact time as its title. */
export function moment(at: Instant | number, nowMs: number): SafeHtml {
  return timeText(at, () => momentText(at, nowMs));
}

/** As `moment`, for titles and labels. */
export function momentText(at: Instant | number, nowMs: number): string {
  const [exact, now] = [exactOf(at), instant(nowMs)];
  if (exact.slice(0, 10) === now.slice(0, 10)) return exact.slice(11, 16);
  const isThisYear = exact.startsWith(now.slice(0, 4));
  return `${dayText(at)} ${isThisYear ? exact.slice(11, 16) : exact.slice(0, 4)}`;
}

/** `27 Nov`. */
export function dayText(at: Instant | number): string {
  // `Fri, 27 Nov 2026 22:28:00 GMT`.
  const [, day, month = ''] = new Date(at).toUTCString().split(' ');
  return `${Number(day)} ${month}`;
}

/** `Today, 28 Nov`, `Friday, 27 Nov`, `27 Nov 2025`: a heading above what happened on that day of UTC. */
export function dayTitle(day: string, nowMs: number): string {
  const now = instant(nowMs);
  if (!now.startsWith(day.slice(0, 4))) return `${dayText(day)} ${day.slice(0, 4)}`;
  const weekday = new Date(day).toLocaleDateString('en', { weekday: 'long', timeZone: 'UTC' });
  return `${now.startsWith(day) ? 'Today' : weekday}, ${dayText(day)}`;
}

/** `15:32`, below the name of its day. */
export function minute(at: Instant): SafeHtml {
  return timeText(at, (exact) => exact.slice(11, 16));
}

/** `15:32:05`, in runs and logs. */
export function second(at: Instant | number): SafeHtml {
  return timeText(at, (exact) => exact.slice(11, 19));
}

/** `40 s`, `36 min`, `26 h`, `8 d`: an age that grows while the page is open. A time in the future counts as now. */
export function age(at: Instant | null, nowMs: number, never = 'never'): SafeHtml {
  if (at === null) return html`<span class="soft">${never}</span>`;
  return timeText(at, (exact) => span(nowMs - Date.parse(exact)), true);
}

/** `40 s`, `36 min`, `26 h`, `8 d`, as the script of the page writes ages. */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  return minutes < 2880 ? `${Math.round(minutes / 60)} h` : `${Math.round(minutes / 1440)} d`;
}

function timeText(at: Instant | number, textOf: (exact: string) => string, grows = false): SafeHtml {
  const exact = exactOf(at);
  const title = `${exact.slice(0, 19).replace('T', ' ')} UTC`;
  const facts = html`datetime="${exact}" title="${title}" ${grows ? html`data-age` : ''}`;
  return html`<time ${facts}>${textOf(exact)}</time>`;
}

function exactOf(at: Instant | number): Instant {
  return instant(new Date(at).getTime());
}
