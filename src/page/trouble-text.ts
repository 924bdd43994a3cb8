import { html, type SafeHtml } from '@remix-run/html-template';
import type { Trouble } from '../app/connector-health.ts';
import { nextRunOf, type SignInState } from '../app/connector-states.ts';
import { keyFields } from '../app/config-edits.ts';
import { type KnownConnector, recentRuns } from '../app/listed-connectors.ts';
import type { Health } from '../core/health.ts';
import type { ConnectorSettings } from '../settings/settings.ts';
import type { RunFacts } from '../sinks/ledger-reader.ts';
import { count, counted, duration, printable, printableWithin } from '../telemetry/format.ts';
import { refusedText } from '../wording/connector-text.ts';
import { answerIn, failureTexts } from '../wording/run-report-table.ts';
import { actLink, type ActName, type PageWorld } from './layout.ts';
import { healthState, moment, momentText, runLooks, span, state } from './page-parts.ts';

/* Why a connector has its health, in words for pages, and the one act that helps. */

/** The trouble in one or two sentences; no command where an act does the same. */
export function troubleReason(trouble: Trouble, of: KnownConnector, world: PageWorld): SafeHtml {
  const { what, detail = '', next = '' } = reasonOf(trouble, of, world);
  const why = detail === '' ? '' : `: ${printableWithin(detail, mostOfMessage).replace(/\.$/, '')}`;
  const sentences = `${what}${why}. ${next}`.trimEnd().split(mark);
  return html`${sentences.map((part, index) => {
    if (index % 2 === 0) return part;
    return part.startsWith(momentMark) ? moment(part.slice(1), world.nowMs) : html`<code>${part}</code>`;
  })}`;
}

/** One line for a table, without the end of its sentence: why the connector is not OK, or what is known of it. */
export function shortReason(of: KnownConnector, world: PageWorld): string {
  const { health, overview, connector } = of;
  const trouble = health.reason ?? health.troubles.find(({ isForPerson }) => isForPerson);
  if (trouble !== undefined && health.word !== 'running') {
    const { what, short = what } = reasonOf(trouble, of, world);
    const parts = short.split(mark);
    return parts
      .map((part) => (part.startsWith(momentMark) ? momentText(part.slice(1), world.nowMs) : part))
      .join('');
  }
  if (health.word === 'running') {
    const since = momentText(overview?.lastRun?.startedAt ?? world.nowMs, world.nowMs);
    return `${health.words.has('new') ? 'First sync' : 'Reads'} since ${since}`;
  }
  if (health.word === 'new') return 'Not read yet';
  const read = overview?.freshness.filter(({ asOf }) => asOf !== null).length ?? 0;
  if (read < connector.entities.size) return '';
  const unconfirmed = new Set(overview?.unconfirmed.map(({ entity }) => entity)).size;
  const entities = counted(connector.entities.size, 'entity', 'entities');
  return unconfirmed === 0 ? `${entities} complete` : `${entities} read, ${count(unconfirmed)} unconfirmed`;
}

/** The one act that fixes the trouble, or a link to where a person decides; empty where it resolves on its own. */
export function troubleAct(trouble: Trouble, of: KnownConnector, world: PageWorld, root: string) {
  if (!trouble.isForPerson && trouble.kind !== 'paused') return '';
  const { name } = of.connector;
  const address = rowsOf(trouble, name) ?? `connectors/${name}`;
  const text = trouble.kind === 'quarantine' ? 'See the records' : 'See details';
  return (
    helpingAct(trouble, of, world, root, 'low') ??
    html`<a class="btn low" href="${root}${address}">${text}</a>`
  );
}

/** The page of the rows that the trouble is about, from the root; null: it is about none. */
export function rowsOf(trouble: Trouble, connector: string): string | null {
  const [entity, rows] =
    trouble.kind === 'withheld'
      ? [trouble.entities[0], 'missing']
      : trouble.kind === 'quarantine'
        ? [trouble.of[0]?.entity, 'refused']
        : [];
  return entity === undefined ? null : `data/${connector}/${entity}?rows=${rows}`;
}

/** The one act that fixes the trouble, empty for a visitor who may not act; null: none does. */
export function helpingAct(
  trouble: Trouble,
  { connector, overview }: KnownConnector,
  world: PageWorld,
  root: string,
  look: '' | 'low' | 'primary',
) {
  const hasKey = trouble.kind === 'credentials' && trouble.code === 'AUTH_FAILED' && world.canType;
  const act = hasKey && keyFields(connector).length > 0 ? newKey : acts[trouble.kind];
  // Another run would stop at the same account.
  if (act === undefined || (trouble.kind === 'error' && trouble.code === 'IDENTITY_CHANGED')) return null;
  // No worker runs a paused connector.
  const isLeft = (overview?.paused ?? null) !== null && (act[0] === 'run-now' || act[0] === 'allow-deletes');
  return actLink(world, root, isLeft ? ['resume', 'Resume…'] : act, { connector: connector.name }, look);
}

const newKey = ['new-key', 'Give a new key…'] as const;
const acts: Partial<Readonly<Record<Trouble['kind'], readonly [ActName, string]>>> = {
  withheld: ['allow-deletes', 'Review deletes…'],
  late: ['run-now', 'Run now'],
  error: ['run-now', 'Run now'],
  credentials: ['check', 'Check again'],
  fields: ['mark-known', 'Mark as known'],
  paused: ['resume', 'Resume…'],
};

/** State of a connector that needs a person: its health or, where that is no problem, what is to be decided. */
export function needState({ kind }: Trouble, health: Health): SafeHtml {
  const isFine = health === 'ok' || health === 'running' || health === 'new';
  return isFine ? state('warn part', decisions[kind] ?? 'Needs you') : healthState(health);
}

const decisions: Partial<Readonly<Record<Trouble['kind'], string>>> = {
  fields: 'New fields',
  quarantine: 'Refused',
  'withheld-by-age': 'Too old',
  purge: 'Purge',
};

/** ` (failed 7 times)`: the runs in a row, up to the newest, that ended alike and not well; empty for less than two. */
export function timesText(runs: readonly Pick<RunFacts, 'kind' | 'state'>[], before: string, after: string) {
  const ended = runs.filter(({ kind, state: of }) => kind === 'sync' && of !== 'running');
  const [newest] = ended;
  if (newest === undefined || newest.state === 'ok') return '';
  const other = ended.findIndex((one) => one.state !== newest.state);
  const times = other === -1 ? ended.length : other;
  if (times < 2) return '';
  // Older runs are not read.
  const atLeast = other === -1 && runs.length >= recentRuns ? 'at least ' : '';
  return `${before}${runLooks[newest.state][1].toLowerCase()} ${atLeast}${times} times${after}`;
}

/** Marks names, commands and moments in texts: no character that `printable` leaves. */
const mark = '\u0000';
const momentMark = '\u0001';
const code = (text: string): string => `${mark}${printable(text)}${mark}`;
const at = (instant: string): string => `${mark}${momentMark}${instant}${mark}`;

/** Messages may be long: the run's page has the whole of one. */
const mostOfMessage = 200;

interface Reason {
  /** The beginning of a sentence. */
  readonly what: string;
  /** As `what` for a table; absent: the same. */
  readonly short?: string;
  /** Message of the service or the run. */
  readonly detail?: string;
  /** The next step, or help beside the act. */
  readonly next?: string;
}

function reasonOf(trouble: Trouble, of: KnownConnector, world: PageWorld): Reason {
  const { program, nowMs } = world;
  const { name } = of.connector;
  const command = (text: string): string => code(`${program} ${text}`);
  switch (trouble.kind) {
    case 'withheld': {
      const { rows, entities } = trouble;
      const [looks, are] = rows === 1 ? ['looks', 'It is'] : ['look', 'They are'];
      const what = `${counted(rows, 'row')} of ${codes(entities)} ${looks} deleted`;
      return { what, next: `${are} kept until you decide.` };
    }
    case 'pending': {
      const what = `${counted(trouble.rows, 'row')} of ${codes(trouble.entities)} may be deleted`;
      return { what, next: `Later runs check ${trouble.rows === 1 ? 'it' : 'them'}.` };
    }
    case 'quarantine': {
      const { what, why, are } = refusedText(trouble);
      const short = why === '' ? what : `${what}: ${why}`;
      return { what, short, detail: why, next: `${are} kept apart; stored rows stay as they were.` };
    }
    case 'withheld-by-age': {
      const { items, entities } = trouble;
      const are = items === 1 ? 'is' : 'are';
      const what = `${counted(items, 'item')} of ${codes(entities)} ${are} older than the config keeps`;
      const next = `That is more than the guards let go at once. ${command(`prune ${name} --allow-deletes`)} removes all of it.`;
      return { what, next };
    }
    case 'part-missing':
    case 'unproven':
      return aboutListings(trouble, command('definitions try <file> <entity> --prove'));
    case 'credentials':
    case 'error':
    case 'retried':
    case 'schema':
      return aboutFailure(trouble, of, command(`schema diff ${name}`), world);
    case 'sign-in':
      return aboutSignIn(trouble.signIn, command(`login ${name}`));
    case 'fields':
      return aboutFields(trouble.fields);
    case 'purge': {
      const next = `The sink or a target may still hold what was purged. ${command(`prune ${name}`)} finishes it.`;
      return { what: 'A purge is not finished', next };
    }
    case 'throttled':
      return { what: `Waits until ${at(trouble.until)}, as the service asked`, next: 'Then it resumes.' };
    case 'interrupted':
      return { what: 'The last run was interrupted', next: 'The next run resumes it.' };
    case 'limited':
      return { what: 'The last run reached the limit that it was given', next: 'The next run resumes it.' };
    case 'left-out':
      return { what: 'The last run left something out', next: 'The next run tries again.' };
    case 'late':
      return aboutLateness(trouble, of, nowMs);
    case 'paused': {
      const by = trouble.who === null ? '' : `by ${printable(trouble.who)} `;
      return { what: `Paused ${by}since ${at(trouble.since)}: ${printable(trouble.reason)}` };
    }
  }
}

type Of<Kind extends Trouble['kind']> = Extract<Trouble, { readonly kind: Kind }>;

function aboutListings(trouble: Of<'part-missing' | 'unproven'>, prove: string): Reason {
  const entities = codes(trouble.entities);
  if (trouble.kind === 'part-missing') {
    const what = `${counted(trouble.listings, 'listing')} of ${entities} may lack records`;
    return { what, next: 'The next run reads more.' };
  }
  const what = `The definition of ${entities} rests on guesses that nothing has proven`;
  return { what, next: `${prove} tests them.` };
}

function aboutFailure(
  { kind, code, entities, message: detail = '' }: Extract<Trouble, { readonly code: unknown }>,
  { connector, overview, runs }: KnownConnector,
  diff: string,
  { nowMs, canType }: PageWorld,
): Reason {
  const since = failedSince(runs);
  const part = entities === undefined ? '' : ` for ${codes(entities)}`;
  const fails = `${part}${since === null ? '' : ` since ${at(since)}`}${timesText(runs, ', ', '')}`;
  const text = failureTexts[code] ?? '';
  switch (kind) {
    case 'schema':
      return { what: text, next: `The config stops a run at them. ${diff} has lines to declare them.` };
    case 'retried': {
      const next = nextRunOf(connector, overview, nowMs);
      const when = next.kind === 'at' ? ` at ${at(next.at)}` : '';
      const what = `The API did not answer as expected${fails}`;
      return { what, short: `${what}; tries again${when}`, detail, next: `The next run tries again${when}.` };
    }
    case 'error':
      return { what: `Runs stop on an error${fails}`, short: printableWithin(detail, 100), detail };
    case 'credentials':
      return { ...aboutCredentials(code, fails, detail), next: renewText(code, connector, canType) };
  }
}

/** `The API refused the credentials (401) since 07:00: The key was revoked`, with the words of the service. */
function aboutCredentials(code: string, fails: string, message: string): Reason {
  const answer = answerIn(message);
  const text = failureTexts[code] ?? '';
  return {
    what: `${text}${answer === null ? '' : ` (${answer.status})`}${fails}`,
    detail: answer?.words ?? message,
  };
}

/** Advice that names the place that the credentials come from. */
function renewText(errorCode: string, connector: ConnectorSettings, canType: boolean): string {
  const { address, keyPlaces, definition } = connector;
  if (errorCode === 'FORBIDDEN') return 'Grant it at the service, then check again.';
  if (address.kind !== 'direct') {
    return `Renew the connection of ${printable(definition.title)} in the API, then check again.`;
  }
  const hasField = canType && keyFields(connector).length > 0;
  if (hasField) return 'Type a new one here; it is checked before it is used.';
  const places = keyPlaces.map(
    ({ kind, name }) => `${kind === 'file' ? 'the file' : 'the variable'} ${code(name.replace(/^\.\//, ''))}`,
  );
  if (places.length === 0) return 'Renew them in the config, then check again.';
  const isFixed = keyPlaces.some(({ kind }) => kind === 'variable');
  const start = isFixed ? ', start the server and the workers again' : '';
  return `Put new ones into ${places.join(' and ')}${start}, then check again.`;
}

/** Start of the failing runs up to the newest; null: the newest did not fail, or an older run may have begun it. */
function failedSince(runs: readonly RunFacts[]) {
  const ended = runs.filter(({ kind, state }) => kind === 'sync' && state !== 'running');
  const good = ended.findIndex(({ state }) => state !== 'failed');
  return good < 1 ? null : (ended[good - 1]?.startedAt ?? null);
}

function aboutSignIn({ state, account, why }: SignInState, login: string): Reason {
  if (state === 'signed-out') return { what: 'No person has signed in', next: `${login} does.` };
  const who = account === null ? '' : ` as ${printable(account)}`;
  return { what: `The sign-in${who} has ended`, detail: why ?? '', next: `${login} renews it.` };
}

function aboutFields(fields: Of<'fields'>['fields']): Reason {
  const entities = [...new Set(fields.map(({ entity }) => entity))];
  const misfits = fields.filter(({ kind }) => kind === 'misfit').length;
  const number = counted(fields.length, 'field');
  const what =
    misfits === 0
      ? `${counted(fields.length, 'new field')} in ${codes(entities)}`
      : misfits === fields.length
        ? `Values of ${number} in ${codes(entities)} do not fit`
        : `${number} in ${codes(entities)} are not as declared`;
  const names = fields.map(({ field }) => (field === '*' ? 'further ones' : field));
  const next = fields.some(({ isRefused }) => isRefused) ? '' : 'All values are kept.';
  return { what: `${what}: ${codes(names)}`, short: what, next };
}

function aboutLateness(trouble: Of<'late'>, { connector, overview }: KnownConnector, nowMs: number): Reason {
  const { entity, asOf, freshWithinMs } = trouble;
  const age = asOf === null ? 'was never read completely' : `is ${span(nowMs - Date.parse(asOf))} old`;
  const limit = freshWithinMs === null ? '' : `, limit ${duration(freshWithinMs)}`;
  const what = `${code(entity)} ${age}${limit}`;
  const next = nextRunOf(connector, overview, nowMs);
  const why =
    next.kind === 'no-schedule'
      ? 'it has no schedule'
      : next.kind === 'overdue'
        ? `a run is due since ${at(next.at)}, and no worker has begun it`
        : null;
  if (why === null) return { what };
  return { what, short: `${what}; ${why}`, next: `${why.charAt(0).toUpperCase()}${why.slice(1)}.` };
}

/** The first of many names, as code. */
function codes(names: readonly string[]): string {
  const shown = names.slice(0, 3).map((name) => code(printableWithin(name, 60)));
  const more = names.length - shown.length;
  return `${shown.join(', ')}${more > 0 ? ` and ${count(more)} more` : ''}`;
}
