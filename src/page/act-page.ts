import { html, type SafeHtml } from '@remix-run/html-template';
import { defaultReason } from '../app/control-connectors.ts';
import { count, printable } from '../telemetry/format.ts';
import type { PreparedAct } from './prepared-act.ts';
import { disclosed, page, textLines, type PageWorld } from './layout.ts';

interface ConfirmForm {
  /** Where the form is sent, as this page links there. */
  readonly address: string;
  readonly formToken: string;
  /** `fingerprint` of what this page says. */
  readonly seen: string;
  /** The form that was sent says something else than what would happen now. */
  readonly hasChanged: boolean;
}

const root = '../';

/** Says what will happen, and asks for it. */
export function confirmPage(act: PreparedAct, form: ConfirmForm, world: PageWorld): string {
  const main = html`<h1>${act.title}?</h1>
    ${
      form.hasChanged
        ? html`<p class="notice attention" role="alert">
            Nothing was done, because something has changed since you were asked. Now this would happen:
          </p>`
        : ''
    }
    ${textLines(act.says)}
    <form class="act" method="post" action="${form.address}">
      <input type="hidden" name="token" value="${form.formToken}" />
      <input type="hidden" name="seen" value="${form.seen}" />
      ${
        act.asksReason === true
          ? html`<label for="reason">Why</label>
              <input
                id="reason"
                name="reason"
                placeholder="${defaultReason}"
                maxlength="200"
                autocomplete="off"
              />`
          : ''
      }
      <p class="fields"><button>${act.title}</button> <a href="${root}${act.back}">No, go back</a></p>
    </form>`;
  return page({ title: act.title, root, main, isLive: false }, world);
}

/** Says what was done. */
export function donePage(act: PreparedAct, done: readonly string[], world: PageWorld): string {
  const main = html`<h1>${act.title}</h1>
    <section class="notice" role="status">${doneLines(done)}</section>
    ${backLink(act.back)}`;
  return page({ title: act.title, root, main, isLive: false }, world);
}

function backLink(back: string): SafeHtml {
  return html`<p>
    <a href="${root}${back}">${back === '' ? 'All connectors' : `Back to ${back.split('/')[1]}`}</a>
  </p>`;
}

interface Undone {
  readonly title: string;
  readonly message: string;
  /** What was done before it failed. */
  readonly done: readonly string[];
  /** As `PreparedAct.back`; absent: all connectors. */
  readonly back?: string;
}

/** Says why nothing was done. */
export function undonePage({ title, message, done, back = '' }: Undone, world: PageWorld): string {
  const main = html`<h1>${title}</h1>
    ${doneLines(done)}
    <p class="notice failed" role="alert">${printable(message)}</p>
    ${backLink(back)}`;
  return page({ title, root, main, isLive: false }, world);
}

const mostLines = 50;

/** All of them; of very many the first and the last are shown, the others on a click. */
function doneLines(done: readonly string[]): SafeHtml {
  const between = done.slice(mostLines, -1);
  if (between.length === 0) return textLines(done);
  return html`${textLines(done.slice(0, mostLines))}
  ${disclosed(`and ${count(between.length)} more`, textLines(between))} ${textLines(done.slice(-1))}`;
}
