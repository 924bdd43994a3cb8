import { html, type SafeHtml } from '@remix-run/html-template';
import type { Trouble } from '../app/connector-health.ts';
import type { FieldNews } from '../sinks/drift.ts';
import { count, counted, printable, roughly } from '../telemetry/format.ts';
import { signInText } from '../wording/sign-in-text.ts';
import { withheldItemsText } from '../wording/withheld-by-age.ts';
import { exactly, type PageWorld } from './layout.ts';

/** What is wrong, and what to do about it. */
export function troubleText(
  trouble: Trouble,
  connector: string,
  { program, nowMs }: Pick<PageWorld, 'program' | 'nowMs'>,
): SafeHtml {
  const command = (text: string): SafeHtml => html`<code>${program} ${text}</code>`;
  switch (trouble.kind) {
    case 'withheld': {
      const { rows } = trouble;
      return html`${counted(rows, 'row')} ${rows === 1 ? 'looks' : 'look'} deleted and
      ${rows === 1 ? 'is' : 'are'} kept. Check at the source; if they are deleted there:
      ${command(`sync ${connector} --allow-deletes`)}`;
    }
    case 'pending':
      return html`${counted(trouble.rows, 'row')} may be deleted; later runs check
      ${trouble.rows === 1 ? 'it' : 'them'}.`;
    case 'credentials':
      return trouble.code === 'FORBIDDEN'
        ? html`The credentials lack a right (FORBIDDEN). Grant it at the service;
          ${command(`status ${connector}`)} shows for what.`
        : html`The service refused the credentials (${trouble.code}). Renew them, then
          ${command(`check ${connector}`)}`;
    case 'sign-in':
      return html`${signInText(trouble.signIn, connector, program)}.`;
    case 'schema':
      return html`The records have fields that the definition does not declare.
      ${command(`schema diff ${connector}`)} lists them.`;
    case 'fields': {
      const { fields, untilMs } = trouble;
      return html`${counted(fields.length, 'field')} ${fields.length === 1 ? 'is' : 'are'} not as the
      definition declares: ${printable(fieldNames(fields))}. Nothing is lost.
      ${command(`schema diff ${connector}`)} has lines to declare what is new;
      ${command(`schema acknowledge ${connector}`)} marks it as known. Without either, it stands here until
      ${exactly(untilMs)}.`;
    }
    case 'withheld-by-age':
      return html`${withheldItemsText(trouble.entities, trouble.items)} Check <code>retention</code> and
        <code>history</code> of the config; if all of it is to go:
        ${command(`prune ${connector} --allow-deletes`)}`;
    case 'error':
      return html`The last run stopped (${trouble.code}); ${command(`check ${connector}`)} says more.`;
    case 'quarantine':
      return html`${counted(trouble.records, 'record')} of the last run could not be stored and
      ${trouble.records === 1 ? 'is' : 'are'} kept in quarantine. ${command(`status ${connector}`)} shows why.`;
    case 'throttled':
      return html`The service asked for a pause until
      ${exactly(trouble.until)}${leftText(Date.parse(trouble.until) - nowMs)}; the next run resumes.`;
    case 'retried':
      return html`The API did not answer as expected (${trouble.code}); the next run tries again.`;
    case 'interrupted':
      return html`The last run was interrupted; the next run resumes it.`;
  }
}

const mostFields = 3;

function fieldNames(fields: readonly FieldNews[]): string {
  const names = fields
    .slice(0, mostFields)
    .map(
      ({ entity, field, kind }) => `${entity}.${field} (${kind === 'misfit' ? 'values do not fit' : 'new'})`,
    );
  const more = fields.length - names.length;
  return `${names.join(', ')}${more > 0 ? ` and ${count(more)} more` : ''}`;
}

/** A pause that is over by this clock is not counted down. */
function leftText(ms: number): string {
  return ms <= 0 ? '' : `, in ${roughly(ms)}`;
}
