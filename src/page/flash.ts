import { randomBytes } from 'node:crypto';
import { html, type SafeHtml } from '@remix-run/html-template';
import { type ActHow, publicationJob } from '../app/acts.ts';
import { overviewOf } from '../app/connector-states.ts';
import { recordsRead } from '../app/run-totals.ts';
import { readConnectorHistory, type WatchedSinks } from '../app/watch-sinks.ts';
import type { Clock } from '../core/clock.ts';
import { SyncError } from '../core/errors.ts';
import type { ConnectorName } from '../core/names.ts';
import { firstNames } from '../definitions/suggest-name.ts';
import type { LocalSettings } from '../settings/settings.ts';
import type { RunFacts, RunSummary } from '../sinks/ledger-reader.ts';
import { count, counted, printable } from '../telemetry/format.ts';
import { disclosed, runLook, second, span, type StateLook } from './layout.ts';

/* Acts of visitors while they go on, and what a page says on top about the one that its address names. */

type Told = readonly [line: string, document: Parameters<ActHow['tell']>[1], details: readonly string[]];

/** An act that a visitor has asked for. */
export interface Deed {
  readonly id: string;
  /** No one else is shown it. */
  readonly visitor: string;
  readonly title: string;
  readonly atMs: number;
  /** The newest run of each connector when it was asked for. */
  readonly before: ReadonlyMap<ConnectorName, RunFacts>;
  readonly told: Told[];
  state: 'doing' | 'done' | 'failed';
  /** Why it failed, or did not do all. */
  problem: string;
  /** The run that it led to, once one was seen. */
  run: string | null;
}

export type Deeds = ReturnType<typeof openDeeds>;

const mostDeeds = 500;
const keptMs = 3_600_000;

/** Keeps the acts of an hour in memory, by a random id. They outlive a reload of the config. */
export function openDeeds() {
  const byId = new Map<string, Deed>();
  return {
    begin: (of: Pick<Deed, 'visitor' | 'title' | 'atMs' | 'before'>): Deed => {
      for (const { id, atMs } of byId.values()) {
        if (byId.size >= mostDeeds || of.atMs - atMs > keptMs) byId.delete(id);
      }
      const id = randomBytes(12).toString('base64url');
      const deed: Deed = { ...of, id, told: [], state: 'doing', problem: '', run: null };
      byId.set(id, deed);
      return deed;
    },
    /** Null for one that is not kept, or of someone else. */
    find: (id: string, visitor: string, nowMs: number): Deed | null => {
      const deed = byId.get(id);
      if (deed === undefined || deed.visitor !== visitor || nowMs - deed.atMs > keptMs) return null;
      return deed;
    },
  };
}

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
  const job = await publicationOf(deed, world);
  return `${deed.state}-${deed.told.length}-${isLongAgo(deed, world)}-${job?.state ?? ''}`;
}

function isLongAgo({ atMs }: Deed, { clock }: Pick<FlashWorld, 'clock'>): boolean {
  return clock.now() - atMs >= patienceMs;
}

interface Shown {
  readonly look: 'run' | 'ok' | 'warn' | 'bad';
  readonly text: SafeHtml;
  /** The run that it is about. */
  readonly run?: string;
}

/** The callout that follows an act to its end. */
export async function flashOf(deed: Deed, root: string, world: FlashWorld): Promise<SafeHtml> {
  const { look, text, run } = await shownOf(deed, world).catch((error: unknown): Shown => {
    if (!(error instanceof SyncError)) throw error;
    return { look: 'warn', text: html`<p>${printable(error.message)}</p>` };
  });
  return html`<section class="callout flash ${look}" role="status" aria-label="What you asked for">
    <div>${text}</div>
    ${run === undefined ? '' : html`<div class="acts"><a class="btn low" href="${root}runs/${run}">Open the run</a></div>`}
  </section>`;
}

async function shownOf(deed: Deed, world: FlashWorld): Promise<Shown> {
  const { title, told, state, problem } = deed;
  const remarks = told.flatMap((one) => (isFollowed(one) ? [] : [remarkOf(one), ...one[2].map(sentence)]));
  const checks = told.filter(([, one]) => one !== undefined && 'check' in one);
  if (state === 'doing') {
    return {
      look: 'run',
      text: html`<p><b>${title}</b>: under way.</p>
        ${lines(remarks)}`,
    };
  }
  if (state === 'failed') {
    const what = told.length === 0 ? 'Nothing was done' : 'Not all of it was done';
    return {
      look: 'bad',
      text: html`<p><b>${what}</b>: ${printable(problem)}</p>
        ${lines(remarks)}`,
    };
  }
  if (checks.length > 0) return checkShown(title, checks);
  const followed = await followedOf(deed, world);
  if (followed === null) return { look: 'ok', text: lines(remarks) };
  return { ...followed, text: html`${followed.text}${lines(remarks)}` };
}

/** Problems first; what is right is shown on a click. */
function checkShown(title: string, checks: readonly Told[]): Shown {
  const ofState = (...states: readonly string[]): readonly string[] =>
    checks.flatMap(([line, one]) =>
      one !== undefined && 'check' in one && states.includes(one.check) ? [line] : [],
    );
  const [failed, warnings, others] = [ofState('failed'), ofState('warning'), ofState('ok', 'skipped')];
  const parts = [
    ...(failed.length === 0 ? [] : [counted(failed.length, 'problem')]),
    ...(warnings.length === 0 ? [] : [counted(warnings.length, 'warning')]),
  ];
  return {
    look: failed.length > 0 ? 'bad' : warnings.length > 0 ? 'warn' : 'ok',
    text: html`<p><b>${title}</b>: ${parts.length === 0 ? 'nothing is wrong' : parts.join(', ')}.</p>
      ${lines([...failed, ...warnings])}
      ${disclosed(counted(others.length, 'check') + ' without a finding', lines(others))}`,
  };
}

const mostLines = 50;

function lines(remarks: readonly string[]): SafeHtml {
  const more = remarks.length - mostLines;
  return html`${remarks.slice(0, mostLines).map((line) => html`<p>${printable(line)}</p>`)}
  ${more > 0 ? html`<p>and ${count(more)} more</p>` : ''}`;
}

/** Lines of the terminal become sentences; those that name a run or a command have other words here. */
function remarkOf([line, document]: Told): string {
  if (document !== undefined && 'paused' in document) {
    const { connector, running } = document;
    return `${connector}: paused.${running === null ? '' : ' Its run in progress continues.'}`;
  }
  if (document !== undefined && 'rows' in document) {
    const { connector, rows } = document;
    return rows === 0
      ? `${connector}: nothing that the run did is left to undo.`
      : `${connector}: ${counted(rows, 'row')} as before the run.`;
  }
  return sentence(line);
}

/** The part of a worker or a run continues after the act. */
function isFollowed([, document]: Told): boolean {
  return (
    document !== undefined && ('isNew' in document || 'isCancelRequested' in document || 'check' in document)
  );
}

async function followedOf(deed: Deed, world: FlashWorld): Promise<Shown | null> {
  const names: ConnectorName[] = [];
  for (const [, document] of deed.told) {
    if (document === undefined) continue;
    if ('isCancelRequested' in document) {
      deed.run = document.run;
      return await cancelShown(deed, document.connector, world);
    }
    if (!('isNew' in document)) continue;
    if ('target' in document) return await publicationShown(deed, document.target, world);
    names.push(document.connector);
  }
  const [first, ...others] = names;
  if (first === undefined) return null;
  return others.length === 0 ? await runShown(deed, first, world) : await manyShown(deed, names, world);
}

/** The newest run of a connector, where it began after the act, or was under way then. */
function newRun(deed: Deed, lastRun: RunFacts | null): RunFacts | null {
  const before = lastRun === null ? undefined : deed.before.get(lastRun.connector);
  return lastRun?.run === before?.run && before?.state !== 'running' ? null : lastRun;
}

async function runShown(deed: Deed, name: ConnectorName, world: FlashWorld): Promise<Shown> {
  const connector = world.settings.connectors.get(name);
  if (connector === undefined) return leftShown(name);
  const { runs, counts } = await readConnectorHistory(connector, seenRuns);
  const syncs = runs.filter(({ kind }) => kind === 'sync');
  deed.run ??= newRun(deed, syncs[0] ?? null)?.run ?? null;
  const run = syncs.find((one) => one.run === deed.run);
  if (run === undefined) return waitingShown(deed, world);
  if (run.state !== 'running') return endShown(run);
  const sum = (of: (one: (typeof counts)[number]) => number): number =>
    run === runs[0] ? counts.reduce((all, one) => all + of(one), 0) : 0;
  const read = sum(({ fetched, duplicate }) => fetched - duplicate);
  const seconds = (world.clock.now() - Date.parse(run.startedAt)) / 1000;
  const rate = seconds < 2 || read === 0 ? '' : `, ${count(Math.round(read / seconds))} a second`;
  const written = sum(({ inserted, updated }) => inserted + updated);
  const text = html`<p>
    <b>Running since ${second(run.startedAt)}</b>, asked for by you. ${counted(read, 'record')} read${rate},
    ${counted(written, 'row')} written so far.
  </p>`;
  return { look: 'run', text, run: run.run };
}

function leftShown(name: ConnectorName): Shown {
  return { look: 'warn', text: html`<p>${name} is no longer in the config.</p>` };
}

/** Later ones may have ended meanwhile. */
const seenRuns = 20;

const looks: Readonly<Record<RunSummary['state'], Shown['look']>> = {
  ok: 'ok',
  running: 'run',
  failed: 'bad',
  partial: 'warn',
  degraded: 'warn',
  interrupted: 'warn',
};

function endShown({ run, state, startedAt, finishedAt, report }: RunSummary): Shown {
  const ms = finishedAt === null ? null : Date.parse(finishedAt) - Date.parse(startedAt);
  const took = ms === null ? '' : ` after ${ms < 1000 ? 'less than 1 s' : span(ms)}`;
  const [, word] = runLook(state);
  const what = state === 'ok' ? 'Done' : state === 'interrupted' ? 'Stopped' : word;
  const why = report?.error ?? report?.failures[0] ?? null;
  const text = html`<p>
    <b>${what}${finishedAt === null ? '' : html` at ${second(finishedAt)}`}</b>${took}${
      why === null ? '' : html`: ${printable(why.message).replace(/\.$/, '')}`
    }.
    ${report === null ? 'What it stored stays.' : sumText(report)}
  </p>`;
  return { look: looks[state], text, run };
}

function sumText(report: NonNullable<RunSummary['report']>): string {
  const sum = (of: (one: (typeof report.entities)[number]) => number): number =>
    report.entities.reduce((all, one) => all + of(one), 0);
  const parts = [
    [sum(({ counts }) => counts.inserted), 'new'],
    [sum(({ counts }) => counts.updated), 'changed'],
    [sum(({ deleted }) => deleted), 'deleted'],
    [sum(({ withheld }) => withheld), 'look deleted and are kept'],
  ] as const;
  const some = parts.flatMap(([number, word]) => (number === 0 ? [] : [`${count(number)} ${word}`]));
  const changes = some.length === 0 ? 'nothing has changed' : some.join(', ');
  return `${counted(recordsRead(report), 'record')} read, ${changes}.`;
}

function waitingShown(deed: Deed, world: FlashWorld): Shown {
  const isLong = isLongAgo(deed, world);
  const more = html` None has taken it for ${span(world.clock.now() - deed.atMs)}. If no worker runs, start
    one:
    <code>${world.program} worker</code>`;
  return {
    look: isLong ? 'warn' : 'run',
    text: html`<p>
      <b>Waiting for a worker</b> since ${second(deed.atMs)}, asked for by you.${isLong ? more : ''}
    </p>`,
  };
}

async function manyShown(deed: Deed, names: readonly ConnectorName[], world: FlashWorld): Promise<Shown> {
  const { overviews } = await world.watched.overviews();
  const byLook = new Map<StateLook | 'waiting', ConnectorName[]>();
  for (const name of names) {
    const connector = world.settings.connectors.get(name);
    const last = connector === undefined ? null : (overviewOf(overviews, connector)?.lastRun ?? null);
    const run = newRun(deed, last);
    const look = run === null ? 'waiting' : runLook(run.state)[0];
    byLook.set(look, [...(byLook.get(look) ?? []), name]);
  }
  const waiting = byLook.get('waiting')?.length ?? 0;
  if (waiting === names.length) return waitingShown(deed, world);
  const failed = byLook.get('bad') ?? [];
  const running = byLook.get('run')?.length ?? 0;
  const ended = names.length - waiting - running;
  const parts = [
    `${count(ended)} of ${counted(names.length, 'run')} ${ended === 1 ? 'has' : 'have'} ended`,
    ...(running === 0 ? [] : [`${count(running)} under way`]),
    ...(waiting === 0 ? [] : [`${count(waiting)} waiting for a worker`]),
    ...(failed.length === 0 ? [] : [`${count(failed.length)} failed: ${firstNames(failed, 5)}`]),
  ];
  const isOver = ended === names.length;
  const look = failed.length > 0 ? 'bad' : !isOver ? 'run' : byLook.has('warn part') ? 'warn' : 'ok';
  return { look, text: html`<p><b>${isOver ? 'Done' : 'Running'}</b>: ${parts.join(', ')}.</p>` };
}

/** A stop was asked for: the run ends at its next page. */
async function cancelShown(deed: Deed, name: ConnectorName, world: FlashWorld): Promise<Shown> {
  const connector = world.settings.connectors.get(name);
  const runs = connector === undefined ? [] : (await readConnectorHistory(connector, seenRuns)).runs;
  const run = runs.find((one) => one.run === deed.run);
  if (run !== undefined && run.state !== 'running') return endShown(run);
  const text = html`<p><b>Stopping</b> at the next page, within seconds. What is stored stays.</p>`;
  return { look: 'run', text, ...(run === undefined ? {} : { run: run.run }) };
}

type PublicationJob = Awaited<ReturnType<typeof publicationJob>>;

/** Asked of Redis at most every two seconds. */
const asked = new WeakMap<Deed, { readonly atMs: number; readonly job: Promise<PublicationJob> }>();
const askEveryMs = 2_000;

/** Null: the act publishes nothing. */
async function publicationOf(deed: Deed, world: FlashWorld): Promise<PublicationJob | null> {
  const document = deed.told.find(([, one]) => one !== undefined && 'job' in one)?.[1];
  if (document === undefined || !('job' in document)) return null;
  const nowMs = performance.now();
  const known = asked.get(deed);
  if (known !== undefined && nowMs - known.atMs < askEveryMs) return await known.job;
  const job = publicationJob(document, world).catch((): PublicationJob => ({ state: 'unknown', end: '' }));
  asked.set(deed, { atMs: nowMs, job });
  return await job;
}

async function publicationShown(deed: Deed, target: string, world: FlashWorld): Promise<Shown> {
  const { state, end } = (await publicationOf(deed, world)) ?? { state: 'unknown', end: '' };
  switch (state) {
    case 'waiting':
    case 'prioritized':
      return waitingShown(deed, world);
    case 'active':
      return { look: 'run', text: html`<p><b>Publishing into ${target}</b>, asked for by you.</p>` };
    case 'completed':
      return { look: 'ok', text: html`<p><b>Done</b>. ${publishedTexts[end] ?? printable(end)}</p>` };
    case 'failed':
    case 'delayed': {
      const then = state === 'failed' ? '' : ' It is tried again soon.';
      return {
        look: 'bad',
        text: html`<p><b>${target} was not published</b>: ${printable(end)}.${then}</p>`,
      };
    }
    default:
      return { look: 'warn', text: html`<p>Redis does not say how far it is.</p>` };
  }
}

const publishedTexts: Readonly<Record<string, string>> = {
  published: 'Readers see the new publication.',
  unchanged: 'Nothing has changed since the last publication.',
  'nothing-stored': 'Nothing is stored yet that could be published.',
};

/** The newest runs, before an act. */
export async function runsBefore(watched: WatchedSinks): Promise<Deed['before']> {
  const { overviews } = await watched.overviews();
  return new Map(
    [...overviews.values()].flatMap(({ connectors }) =>
      [...connectors.values()].flatMap(({ connector, lastRun }) =>
        lastRun === null ? [] : [[connector, lastRun] as const],
      ),
    ),
  );
}

function sentence(line: string): string {
  return line.replace(/\.?$/, '.');
}
