import { html, type SafeHtml } from '@remix-run/html-template';
import { type Deed, publicationOf, runOfDeed, runsOfDeed, type Told } from '../app/acts.ts';
import { recordsRead } from '../app/run-totals.ts';
import type { WatchedSinks } from '../app/watch-sinks.ts';
import type { Clock } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import type { ConnectorName } from '../core/names.ts';
import { firstNames } from '../definitions/suggest-name.ts';
import type { LocalSettings } from '../settings/settings.ts';
import type { RunSummary } from '../sinks/ledger-reader.ts';
import { count, counted, printable } from '../telemetry/format.ts';
import { disclosed, runLooks, second, span, type StateLook } from './page-parts.ts';

/* The line on top of a page about the act of a visitor that its address names. */

type Done = NonNullable<Told[1]>;

export interface FlashWorld {
  readonly settings: LocalSettings;
  readonly watched: WatchedSinks;
  readonly clock: Clock;
  readonly program: string;
  readonly signal: AbortSignal;
}

/** After this long, the lack of a worker is worth a word. */
const patienceMs = 30_000;

/** Text that changes with what the flash shows, apart from what is read in sinks. */
export async function flashState(deed: Deed, world: FlashWorld): Promise<string> {
  const job = await publicationOf(deed, world.settings);
  return `${deed.state}-${deed.told.length}-${isLongAgo(deed, world.clock)}-${job?.state ?? ''}`;
}

function isLongAgo({ atMs }: Deed, clock: Clock): boolean {
  return clock.now() - atMs >= patienceMs;
}

interface Shown {
  readonly look: StateLook | 'warn';
  readonly text: SafeHtml | '';
  /** The run that it is about. */
  readonly run?: string;
}

function shown(look: Shown['look'], word: SafeHtml | string, text: SafeHtml | string): Shown {
  return { look, text: html`<p><b>${word}</b>${text}</p>` };
}

/** The callout that follows an act to its end. */
export async function flashOf(deed: Deed, root: string, world: FlashWorld): Promise<SafeHtml> {
  const { look, text, run } = await stateShown(deed, world).catch((error: unknown): Shown => {
    if (!(error instanceof SyncError)) throw error;
    return { look: 'warn', text: html`<p>${printable(error.message)}</p>` };
  });
  const link = html`<div class="acts">
    <a class="btn low" href="${root}runs/${run ?? ''}">Open the run</a>
  </div>`;
  return html`<section class="callout flash ${look}" role="status" aria-label="What you asked for">
    <div>${text}${lines(deed.told.flatMap(remarksOf))}</div>
    ${run === undefined ? '' : link}
  </section>`;
}

async function stateShown(deed: Deed, world: FlashWorld): Promise<Shown> {
  const { title, told, state, problem } = deed;
  if (state === 'doing') return shown('run', title, ': under way.');
  if (state === 'failed') {
    const what = told.length === 0 ? 'Nothing was done' : 'Not all of it was done';
    return shown('bad', what, `: ${printable(problem)}`);
  }
  const checks = told.flatMap(([line, one]) =>
    one !== undefined && 'check' in one ? [{ line, state: one.check }] : [],
  );
  if (checks.length > 0) return checkShown(title, checks);
  const documents = told.flatMap(([, document]) => document ?? []);
  const cancelled = documents.find((one) => 'isCancelRequested' in one);
  if (cancelled !== undefined) {
    deed.run = cancelled.run;
    return await runShown(deed, cancelled.connector, true, world);
  }
  const published = documents.find((one) => 'target' in one);
  if (published !== undefined) return await publicationShown(deed, published.target, world);
  const queued = documents.flatMap((one) => ('isNew' in one && 'connector' in one ? [one.connector] : []));
  const [first, ...others] = queued;
  if (first === undefined) return { look: 'ok', text: '' };
  return others.length === 0
    ? await runShown(deed, first, false, world)
    : await manyShown(deed, queued, world);
}

/** Problems first; what is right is shown on a click. */
function checkShown(
  title: string,
  checks: readonly { readonly line: string; readonly state: string }[],
): Shown {
  const ofState = (...states: readonly string[]): readonly string[] =>
    checks.filter((check) => states.includes(check.state)).map((check) => check.line);
  const [failed, warnings, others] = [ofState('failed'), ofState('warning'), ofState('ok', 'skipped')];
  const found = partsOf(
    [failed.length, counted(failed.length, 'problem')],
    [warnings.length, counted(warnings.length, 'warning')],
  );
  const { look, text } = shown(
    failed.length > 0 ? 'bad' : warnings.length > 0 ? 'warn' : 'ok',
    title,
    `: ${found || 'nothing is wrong'}.`,
  );
  const sound = disclosed(counted(others.length, 'check') + ' without a finding', lines(others));
  return { look, text: html`${text} ${lines([...failed, ...warnings])} ${sound}` };
}

/** Texts of the numbers that are not zero. */
function partsOf(...parts: readonly (readonly [number, string])[]): string {
  return parts.flatMap(([number, text]) => (number === 0 ? [] : [text])).join(', ');
}

const mostLines = 50;

function lines(remarks: readonly string[]): SafeHtml {
  const more = remarks.length - mostLines;
  return html`${remarks.slice(0, mostLines).map((line) => html`<p>${printable(line)}</p>`)}
  ${more > 0 ? html`<p>and ${count(more)} more</p>` : ''}`;
}

/** Lines of the terminal as sentences. None where the part of a worker, a run or a check is shown in its place. */
function remarksOf([line, document, details = []]: Told): readonly string[] {
  if (document !== undefined && isFollowed(document)) return [];
  return [remarkOf(line, document), ...details].map((text) => text.replace(/\.?$/, '.'));
}

function isFollowed(document: Done): boolean {
  return 'isNew' in document || 'isCancelRequested' in document || 'check' in document;
}

/** Remark on an act as the page words it: lines of a terminal name runs and commands. */
function remarkOf(line: string, document: Done | undefined): string {
  if (document !== undefined && 'paused' in document) {
    const { connector, running } = document;
    return `${connector}: paused${running === null ? '' : '. Its run in progress continues'}`;
  }
  if (document === undefined || !('rows' in document)) return line;
  const { connector, rows } = document;
  return rows === 0
    ? `${connector}: nothing that the run did is left to undo`
    : `${connector}: ${counted(rows, 'row')} as before the run`;
}

/** `isStopping`: a stop was asked for, and the run ends at its next page. */
async function runShown(
  deed: Deed,
  name: ConnectorName,
  isStopping: boolean,
  world: FlashWorld,
): Promise<Shown> {
  const stopping = shown(
    'run',
    'Stopping',
    `: ${name}, at its next page, within seconds. What is stored stays.`,
  );
  const connector = world.settings.connectors.get(name);
  if (connector === undefined) {
    return isStopping ? stopping : { look: 'warn', text: html`<p>${name} is no longer in the config.</p>` };
  }
  const found = await runOfDeed(deed, connector);
  if (found === null) return isStopping ? stopping : waitingShown(deed, name, world);
  const { run, read, written, deleted } = found;
  if (run.state !== 'running') return endShown(run);
  if (isStopping) return { ...stopping, run: run.run };
  const seconds = (world.clock.now() - Date.parse(run.startedAt)) / 1000;
  const rate = seconds < 2 || read === 0 ? '' : `, ${count(Math.round(read / seconds))} a second`;
  const gone = deleted === 0 ? '' : `, ${count(deleted)} deleted`;
  const work = `${counted(read, 'record')} read${rate}, ${counted(written, 'row')} written${gone} so far.`;
  const text = `: ${name}, asked for by you. ${work}`;
  return { ...shown('run', html`Running since ${second(run.startedAt)}`, text), run: run.run };
}

function endShown({ run, connector, state, startedAt, finishedAt, report }: RunSummary): Shown {
  const ms = finishedAt === null ? null : Date.parse(finishedAt) - Date.parse(startedAt);
  const took = ms === null ? '' : `, after ${ms < 1000 ? 'less than 1 s' : span(ms)}`;
  const [look, word] = runLooks[state];
  const what = state === 'ok' ? 'Done' : state === 'interrupted' ? 'Stopped' : word;
  const when = finishedAt === null ? '' : html` at ${second(finishedAt)}`;
  const why = report?.error ?? report?.failures[0] ?? null;
  const cause = why === null ? '' : `: ${printable(why.message).replace(/\.$/, '')}`;
  const did = report === null ? 'What it stored stays.' : sumText(report);
  return { ...shown(look, html`${what}${when}`, `: ${connector}${took}${cause}. ${did}`), run };
}

function sumText(report: NonNullable<RunSummary['report']>): string {
  const part = (of: (one: (typeof report.entities)[number]) => number, word: string) => {
    const sum = report.entities.reduce((all, one) => all + of(one), 0);
    return [sum, `${count(sum)} ${word}`] as const;
  };
  const changes = partsOf(
    part(({ counts }) => counts.inserted, 'new'),
    part(({ counts }) => counts.updated, 'changed'),
    part(({ deleted }) => deleted, 'deleted'),
    part(({ withheld }) => withheld, 'look deleted and are kept'),
  );
  return `${counted(recordsRead(report), 'record')} read, ${changes || 'nothing has changed'}.`;
}

/** `what`: it waits for a worker. */
function waitingShown(deed: Deed, what: string, { clock, program }: FlashWorld): Shown {
  const isLong = isLongAgo(deed, clock);
  const more = html` None has taken it for ${span(clock.now() - deed.atMs)}. If no worker runs, start one:
    <code>${program} worker</code>`;
  const since = html` since ${second(deed.atMs)}: ${what}, asked for by you.${isLong ? more : ''}`;
  return shown(isLong ? 'warn' : 'run', 'Waiting for a worker', since);
}

async function manyShown(deed: Deed, names: readonly ConnectorName[], world: FlashWorld): Promise<Shown> {
  const byState = await runsOfDeed(deed, names, world);
  const waiting = byState.get('waiting')?.length ?? 0;
  if (waiting === names.length) return waitingShown(deed, firstNames(names, 5), world);
  const failed = byState.get('failed') ?? [];
  const running = byState.get('running')?.length ?? 0;
  const ended = names.length - waiting - running;
  const all = `${count(ended)} of ${counted(names.length, 'run')} ${ended === 1 ? 'has' : 'have'} ended`;
  const parts = partsOf(
    [names.length, all],
    [running, `${count(running)} under way`],
    [waiting, `${count(waiting)} waiting for a worker`],
    [failed.length, `${count(failed.length)} failed: ${firstNames(failed, 5)}`],
  );
  const isOver = ended === names.length;
  const isAllRight = (byState.get('ok')?.length ?? 0) === ended;
  const look = failed.length > 0 ? 'bad' : !isOver ? 'run' : isAllRight ? 'ok' : 'warn';
  return shown(look, isOver ? 'Done' : 'Running', `: ${parts}.`);
}

async function publicationShown(deed: Deed, target: string, world: FlashWorld): Promise<Shown> {
  const { state, end } = (await publicationOf(deed, world.settings)) ?? { state: 'unknown', end: '' };
  if (state === 'waiting' || state === 'prioritized') return waitingShown(deed, target, world);
  if (state === 'active') return shown('run', `Publishing into ${target}`, ', asked for by you.');
  if (state === 'completed') return shown('ok', 'Done', `. ${publishedTexts[end] ?? printable(end)}`);
  if (state !== 'failed' && state !== 'delayed') {
    return { look: 'warn', text: html`<p>Redis does not say how far it is.</p>` };
  }
  const then = state === 'failed' ? '' : ' It is tried again soon.';
  return shown('bad', `${target} was not published`, `: ${printable(end)}.${then}`);
}

const publishedTexts: Readonly<Record<string, string>> = {
  published: 'Readers see the new publication.',
  unchanged: 'Nothing has changed since the last publication.',
  'nothing-stored': 'Nothing is stored yet that could be published.',
};
