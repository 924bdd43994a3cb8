import type { ConnectorHealth, Trouble } from '../app/connector-health.ts';
import { instant } from '../core/clock.ts';
import type { ErrorCode } from '../core/errors.ts';
import { widenCommand, type FieldNews } from '../sinks/drift.ts';
import { count, counted, printable, printableWithin, roughly, toTheMinute } from '../telemetry/format.ts';
import { signInText } from './sign-in-text.ts';
import { withheldItemsText } from './withheld-by-age.ts';

interface TextStyle {
  /** How this program is called. */
  readonly program: string;
  readonly nowMs: number;
}

/** As text, with commands in double quotes. */
function troubleLine(trouble: Trouble, connector: string, style: TextStyle): string {
  return troubleParts(trouble, connector, style)
    .map((part, index) => (index % 2 === 0 ? part : `"${part}"`))
    .join('');
}

/** Why a connector is called what it is; null where that needs no reason. */
export function reasonLine(
  { reason }: Pick<ConnectorHealth, 'reason'>,
  connector: string,
  style: TextStyle,
): string | null {
  return reason === null ? null : troubleLine(reason, connector, style);
}

/** What is wrong and what to do about it, by turns a text and a command. */
export function troubleParts(trouble: Trouble, connector: string, style: TextStyle): readonly string[] {
  // No character that `printable` leaves.
  const mark = '\u0000';
  return textOf(trouble, connector, style, (text) => `${mark}${style.program} ${text}${mark}`).split(mark);
}

function textOf(
  trouble: Trouble,
  connector: string,
  { program, nowMs }: TextStyle,
  command: (text: string) => string,
): string {
  switch (trouble.kind) {
    case 'withheld': {
      const { rows } = trouble;
      return `${counted(rows, 'row')} ${rows === 1 ? 'looks' : 'look'} deleted and ${rows === 1 ? 'is' : 'are'} kept. Check at the source; if they are deleted there: ${command(`sync ${connector} --allow-deletes`)}`;
    }
    case 'pending':
      return `${counted(trouble.rows, 'row')} may be deleted; later runs check ${trouble.rows === 1 ? 'it' : 'them'}.`;
    case 'credentials':
      return trouble.code === 'FORBIDDEN'
        ? `The credentials lack a right (FORBIDDEN)${because(trouble)}. Grant it at the service; ${command(`status ${connector}`)} shows for what.`
        : `The service refused the credentials (${trouble.code})${because(trouble)}. Renew them, then ${command(`check ${connector}`)}`;
    case 'sign-in':
      return `${signInText(trouble.signIn, connector, program)}.`;
    case 'schema':
      return `The records have fields that the definition does not declare. ${command(`schema diff ${connector}`)} lists them.`;
    case 'fields': {
      const { fields, untilMs } = trouble;
      const widening = fields.filter(({ canWiden }) => canWiden).slice(0, mostFields);
      const widen = widening.map(
        (one) => ` To make a text column of ${one.field}: ${command(widenCommand(one))}`,
      );
      return `${counted(fields.length, 'field')} ${fields.length === 1 ? 'is' : 'are'} not as the definition declares: ${printable(fieldNames(fields))}. Nothing is lost. ${command(`schema diff ${connector}`)} has lines to declare what is new; ${command(`schema acknowledge ${connector}`)} marks it as known. Without either, it stands here until ${toTheMinute(instant(untilMs))}.${widen.join('')}`;
    }
    case 'withheld-by-age':
      return `${withheldItemsText(trouble.entities, trouble.items)} Check "retention" and "history" of the config; if all of it is to go: ${command(`prune ${connector} --allow-deletes`)}`;
    case 'purge':
      return `A purge is not finished: the sink or a target may still hold what was purged. To finish it: ${command(`prune ${connector}`)}`;
    case 'error':
      return `The last run stopped (${trouble.code})${because(trouble)}. Once it is put right: ${command(`sync ${connector}`)}`;
    case 'quarantine':
      return `${counted(trouble.records, 'record')} of the last run could not be stored and ${trouble.records === 1 ? 'is' : 'are'} kept in quarantine. ${command(`status ${connector}`)} shows why.`;
    case 'throttled':
      return `The service asked for a pause until ${toTheMinute(trouble.until)}${leftText(Date.parse(trouble.until) - nowMs)}; the next run resumes.`;
    case 'retried':
      return `The API did not answer as expected (${trouble.code})${because(trouble)}; the next run tries again.`;
    case 'interrupted':
      return 'The last run was interrupted; the next run resumes it.';
    case 'limited':
      return 'The last run ended at the limit that it was given; the next run resumes it.';
    case 'left-out':
      return `The last run left something out; ${command(`status ${connector}`)} shows what.`;
    case 'part-missing':
      return `${counted(trouble.listings, 'listing')} may have records that did not come; ${command(`status ${connector}`)} shows which.`;
    case 'late': {
      const { entity, asOf, freshWithinMs } = trouble;
      const age = asOf === null ? 'was never read completely' : `is as of ${toTheMinute(asOf)}`;
      const limit = freshWithinMs === null ? '' : `, and may be ${roughly(freshWithinMs)} old`;
      return `${entity} ${age}${limit}. Is a worker running? ${command(`sync ${connector}`)} reads it now.`;
    }
    case 'paused':
      return `Paused since ${toTheMinute(trouble.since)}: ${printable(trouble.reason)}. To end the pause: ${command(`schedule resume ${connector}`)}`;
  }
}

/** Messages may be long: the run's report has the whole of one. */
const mostOfMessage = 300;

/** A message says what to do, where the code alone does not. */
function because({ message }: { readonly code: ErrorCode; readonly message?: string }): string {
  return message === undefined ? '' : `: ${printableWithin(message, mostOfMessage).replace(/\.$/, '')}`;
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
