import type { Instant } from '../../../core/clock.ts';
import type { ConnectorName, RunId, EntityName } from '../../../core/names.ts';
import { readJson, writeJson } from '../../../core/json.ts';
import type { ScopeChange } from '../../ledger-reader.ts';
import { parseJournal, type RunJournal } from '../../run-journal.ts';
import type { RunOutcome, RunReport } from '../../run-report.ts';
import { cellOf, put, write, type Tx } from '../../../sql/database.ts';
import { SyncError } from '../../../core/errors.ts';
import type { RunPlan } from '../../sink.ts';
import { believedUntil, type ChainReading } from '../../decisions/becoming-due.ts';

export async function newestRun(tx: Tx, connector: ConnectorName, window: string) {
  return await tx.first<EarlierRun>(
    `SELECT run, origin, resume_at, scope, state, can_continue, is_full,
       EXISTS (SELECT 1 FROM _sync_counts AS counted WHERE counted.run = newest.run) AS has_stored,
       coalesce((
         SELECT coalesce(chain.resume_at, chain.started_at) FROM _sync_runs AS chain
         WHERE chain.connector = newest.connector AND chain.number >= newest.origin AND chain.origin = newest.origin
           AND (chain.number = chain.origin
             OR EXISTS (SELECT 1 FROM _sync_counts AS counted WHERE counted.run = chain.run))
         ORDER BY chain.number DESC LIMIT 1
       ), started_at) AS progress_at
     FROM _sync_runs AS newest WHERE connector = :connector AND chain = :window ORDER BY number DESC LIMIT 1`,
    { connector, window },
  );
}

/** When the chain's first run began. */
export async function chainStartedAt(tx: Tx, origin: number): Promise<Instant | undefined> {
  return await cellOf(tx, `SELECT started_at FROM _sync_runs WHERE number = :origin`, { origin });
}

/** Begins a chain, or resumes the one of `earlier`; gives the number of the chain's first run. */
export async function insertRun(tx: Tx, run: NewRun, earlier: EarlierRun | null): Promise<number> {
  const inserted = await cellOf<number>(
    tx,
    `INSERT INTO _sync_runs (run, connector, origin, scope, continues, can_continue, state, started_at, kind, chain, is_full)
     VALUES (:run, :connector, :origin, :scope, :continues, 1, 'running', :startedAt, :kind, :window, :isFull) RETURNING number`,
    { ...run, origin: earlier?.origin ?? 0, continues: earlier?.run ?? null },
  );
  if (earlier !== null) return earlier.origin;
  const number = inserted ?? 0;
  tx.put(`UPDATE _sync_runs SET origin = number WHERE number = :number`, { number });
  return number;
}

/** `report`: JSON. */
export const endRun = put<
  Pick<RunReport, 'finishedAt' | 'resumeAt'> & { run: RunId; state: RunOutcome; report: string }
>(
  `UPDATE _sync_runs SET state = :state, finished_at = :finishedAt, resume_at = :resumeAt, report = :report
   WHERE run = :run`,
);

/** `chain` of runs that could not begin: no plan has it, so no run resumes them, and no chain of runs knows of them. */
const notBegun = '-';
export const hasBegun = `chain <> '${notBegun}'`;
/** Limit per connector: a schedule that fails every minute must not push out runs that have read something. */
const mostNotBegun = 100;

/** Limit per connector: older runs are pruned at the end of a run. */
export const keptRuns = 1_000;

export async function insertFailedStart(tx: Tx, report: RunReport, journal?: string): Promise<void> {
  const { run, connector, kind, startedAt, finishedAt, outcome: state } = report;
  await insertRun(tx, { run, connector, kind, window: notBegun, isFull: false, startedAt, scope: '' }, null);
  endRun(tx, { run, state, finishedAt, resumeAt: null, report: writeJson(report) });
  tx.put(
    `DELETE FROM _sync_runs WHERE connector = :connector AND NOT ${hasBegun} AND number <= (
       SELECT number FROM _sync_runs WHERE connector = :connector AND NOT ${hasBegun}
       ORDER BY number DESC LIMIT 1 OFFSET :kept)`,
    { connector, kept: mostNotBegun },
  );
  if (journal !== undefined) putJournal(tx, { connector, run, at: finishedAt, journal });
  pruneJournals(tx, { connector });
}

/** `journal`: JSON. */
export const putJournal = put<Record<'connector' | 'run' | 'at' | 'journal', string>>(
  `INSERT INTO _sync_journals (connector, run, at, journal) VALUES (:connector, :run, :at, :journal)
   ON CONFLICT (run) DO UPDATE SET at = excluded.at, journal = excluded.journal`,
);

/** Null where none is kept. */
export async function readJournal(tx: Tx, run: RunId): Promise<RunJournal | null> {
  const text = await cellOf<string>(tx, `SELECT journal FROM _sync_journals WHERE run = :run`, { run });
  return text === undefined ? null : parseJournal(text);
}

/** Keeps the journals of the newest 20 runs. */
export const pruneJournals = put<{ connector: ConnectorName }>(
  `DELETE FROM _sync_journals WHERE connector = :connector AND run NOT IN (
     SELECT run FROM _sync_runs WHERE connector = :connector ORDER BY number DESC LIMIT 20)`,
);

/** Drops those that were written before then, or all. */
export const dropJournals = write<{ connector: ConnectorName; before: Instant | null }>(
  `DELETE FROM _sync_journals WHERE connector = :connector AND at < coalesce(CAST(:before AS text), '9')`,
);

export const interruptRunning = write<{ connector: ConnectorName }>(
  `UPDATE _sync_runs SET state = 'interrupted' WHERE connector = :connector AND state = 'running'`,
);

export async function forbidContinuing(tx: Tx, connector: ConnectorName): Promise<void> {
  await tx.run(`UPDATE _sync_runs SET can_continue = 0 WHERE connector = :connector`, { connector });
}

/** The newest run of a connector and window, as the next one needs to know it. */
export interface EarlierRun {
  readonly run: RunId;
  /** Number of the first run of its chain. */
  readonly origin: number;
  readonly state: RunOutcome | 'running';
  readonly scope: string;
  /** False after rows were lost, a reset or an adoption. */
  readonly canContinue: boolean;
  readonly isFull: boolean;
  readonly hasStored: boolean;
  /** Time until which the service asked for no calls, if that ended the run. */
  readonly resumeAt: Instant | null;
  /**
   * When the chain's newest run that stored a page began; where it ended because the service asked for no calls, until
   * when.
   */
  readonly progressAt: Instant;
}

export interface NewRun extends Pick<RunPlan, 'run' | 'kind' | 'window' | 'isFull' | 'startedAt'> {
  readonly connector: ConnectorName;
  /** Scope of the run, as text: only a run of the same scope resumes it. */
  readonly scope: string;
}

/** Run of a lease, with the parts of its plan that are the same in every sink. */
export interface RunInChain extends Pick<
  RunPlan,
  'run' | 'kind' | 'window' | 'backfill' | 'keepPartitionsSince' | 'isFull'
> {
  /** Number of the first run of its chain. */
  readonly origin: number;
  /** Start of that first run. */
  readonly chainStartedAt: Instant;
  /** Whether partitions that were not read for longest are read first. */
  readonly isStalestFirst: boolean;
  /** Reading of each entity of the run. */
  readonly reading: ReadonlyMap<EntityName, ChainReading>;
  readonly entities: ReadonlySet<EntityName>;
  /** Entities whose rows are never deleted. */
  readonly keeps: ReadonlySet<EntityName>;
  /** The shortest page that was followed by more, by entity and requested size: of this process. */
  readonly followed: Map<string, number>;
}

/**
 * Whether a plan's run may resume the newest one: it was cut short, reads the same and made progress lately. Work must
 * remain, too.
 */
export function mayResume(newest: EarlierRun, plan: RunPlan, definitionHash: string): boolean {
  const wasCutShort =
    newest.state === 'interrupted' || newest.state === 'failed' || newest.state === 'partial';
  // A chain may last while it makes progress: a service that allows an hour of calls a day is still read to its end.
  const isYoung = newest.progressAt > plan.continueAfter;
  const isFullEnough = newest.isFull || !plan.isFull;
  const readsTheSame = newest.scope === scopeOf(plan, definitionHash);
  return newest.canContinue && wasCutShort && isYoung && isFullEnough && readsTheSame;
}

/**
 * Whether the service asked the resumed run to wait before it gave a page. Partitions that such a run would have read
 * first are read last.
 */
export function wasKeptWaiting(earlier: EarlierRun | null): boolean {
  return earlier !== null && earlier.resumeAt !== null && !earlier.hasStored;
}

/**
 * Scope of a run, as text. A changed definition is another scope, because positions stored under the old one may have
 * another meaning.
 */
export function scopeOf(plan: RunPlan, definitionHash: string): string {
  return writeJson({
    definition: definitionHash,
    choices: plan.choices,
    entities: [...plan.entities].sort(),
    // Windows of the calendar, which have a marker, become more with time.
    roots: plan.roots
      .flatMap(({ entity, params, marker }) => (marker === null ? [writeJson([entity, params])] : []))
      .sort(),
  });
}

interface Scope {
  readonly definition: string;
  readonly choices: string;
  readonly entities: readonly EntityName[];
}

/**
 * Syncs that read otherwise than the one before, newest first. A single sync after which the old things are read again
 * is left out: a person chose its entities.
 */
export async function readScopeChanges(tx: Tx, connector: ConnectorName, limit: number) {
  const rows = await tx.rows<
    Pick<ScopeChange, 'run' | 'startedAt'> & Record<'scope' | 'earlier', string> & { readonly place: number }
  >(
    `SELECT run, started_at, scope, earlier, place FROM (
       SELECT number, run, started_at, scope, lag(scope) OVER by_number AS earlier, row_number() OVER by_number AS place
       FROM _sync_runs WHERE connector = :connector AND kind = 'sync' AND ${hasBegun}
       WINDOW by_number AS (ORDER BY number)
     ) AS one WHERE scope <> earlier ORDER BY number DESC LIMIT :limit`,
    { connector, limit },
  );
  const changes: ScopeChange[] = [];
  for (let index = 0; index < rows.length; index += 1) {
    const [row, below] = [rows[index], rows[index + 1]];
    if (row === undefined) break;
    const { scope, earlier, place, ...run } = row;
    if (below?.earlier === scope && below.place === place - 1) index += 1;
    else {
      // `as`: `scopeOf` has written these texts.
      changes.push({
        ...run,
        ...scopeChange(readJson(scope) as unknown as Scope, readJson(earlier) as unknown as Scope),
      });
    }
  }
  return changes;
}

function scopeChange(now: Scope, before: Scope): Omit<ScopeChange, 'run' | 'startedAt'> {
  const choices = choicesOf(before);
  return {
    isOtherDefinition: now.definition !== before.definition,
    added: now.entities.filter((entity) => !before.entities.includes(entity)),
    left: before.entities.filter((entity) => !now.entities.includes(entity)),
    changed: [...choicesOf(now)].flatMap(([entity, text]) =>
      (choices.get(entity) ?? text) === text ? [] : [entity],
    ),
  };
}

/** Settings of each entity, as text. */
function choicesOf({ choices }: Scope): ReadonlyMap<EntityName, string> {
  if (!choices.startsWith('[')) return new Map();
  // `as`: a plan has written it.
  const all = JSON.parse(choices) as readonly (readonly [EntityName, ...unknown[]])[];
  return new Map(all.map(([entity, ...chosen]) => [entity, JSON.stringify(chosen)]));
}

/**
 * Reading of the plan's entities in a chain of runs. Throws where the plan lacks one: its partitions would never become
 * ready.
 */
export function chainReadings(plan: RunPlan, definitionHash: string, isFull: boolean) {
  const leaves = new Set(plan.leaves);
  return new Map(
    plan.entities.map((entity) => {
      const reading = plan.reading.get(entity);
      if (reading === undefined) {
        throw new SyncError(
          `The run's plan does not say how "${entity}" is read. This is a defect: report it with the run's log.`,
          { code: 'INTERNAL', recovery: 'stop', context: { entity } },
        );
      }
      // A leaf concludes nothing from the choices. Any other entity must lead to its children, unchanged or not.
      const own = [definitionHash, ...(reading.from ?? [])];
      const scope = writeJson(leaves.has(entity) ? own : [definitionHash, plan.choices]);
      return [entity, { ...reading, isFull, scope, believedUntil: believedUntil(plan.startedAt) }];
    }),
  );
}
