import { html, type SafeHtml } from '@remix-run/html-template';
import type { connectorActs, oneConnectorActs, runActs } from '../app/acts.ts';
import type { editActs } from '../app/config-edits.ts';
import { mayAct, type PageWorld } from './layout.ts';

/** Acts that a page offers, as addresses name them. */
export type ActName =
  | keyof typeof connectorActs
  | keyof typeof oneConnectorActs
  | keyof typeof runActs
  | keyof typeof editActs
  | 'publish-now';

/** Acts on one connector that need no confirmation, because they only start what a schedule does too, or only look. */
const pressedActs: ReadonlySet<ActName> = new Set(['run-now', 'check'] as const);

export function isPressed(name: ActName, connector: string | undefined): boolean {
  return pressedActs.has(name) && (connector ?? '') !== '';
}

/**
 * A button that leads to the page which asks for confirmation, or to a dialog with its content; where nothing is to be
 * confirmed, a form that does it. Empty for a visitor who may not act. `look`: `primary` at most once on a page, `low`
 * within lists.
 */
export function actLink(
  { visitor, here, formToken }: PageWorld,
  root: string,
  [name, text]: readonly [ActName, string],
  of: Readonly<Record<string, string>>,
  look: '' | 'low' | 'primary' = '',
): SafeHtml | '' {
  if (!mayAct(visitor)) return '';
  const back = here === homeOf(of) ? {} : { back: here };
  const address = `${root}act/${name}?${new URLSearchParams({ ...of, ...back }).toString()}`;
  if (!isPressed(name, of['connector'])) {
    return html`<a class="btn ${look}" href="${address}" data-dialog>${text}</a>`;
  }
  return html`<form method="post" action="${address}">
    <input type="hidden" name="token" value="${formToken}" /><button class="${look}">${text}</button>
  </form>`;
}

/** The page of the subject of an act, from the root; `./` for that of all connectors. */
export function homeOf({ connector = '', run = '', target = '' }: Readonly<Record<string, string>>): string {
  if (run !== '') return `runs/${run}`;
  if (target !== '') return `targets/${target}`;
  return connector === '' ? './' : `connectors/${connector}`;
}
