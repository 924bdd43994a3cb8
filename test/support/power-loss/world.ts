import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import Database from 'better-sqlite3';
import { systemClock } from '../../../src/core/clock.ts';
import { revisingAccount } from '../revising-account.ts';
import { createSampleAccount } from '../../../src/sample/sample-service.ts';
import { serveSamples } from '../serve-samples.ts';
import type { RunReport } from '../../../src/sinks/run-report.ts';
import type { SinkOptions } from '../../../src/sinks/sink-access.ts';
import { trueRows } from '../revision-world.ts';
import { builtInDefinition, sampleSeed } from '../sample-service.ts';
import { differencesFrom, noDifferences, sampleSinks, type Differences } from '../sample-sinks.ts';
import { syncOnce, testCredentials } from '../sync-once.ts';
import { contentsAfter, writeContents } from './disk.ts';
import { compileRecorder, readContents, recordSyncs } from './record-syncs.ts';
import type { Contents } from './recording.ts';
import { laterMsPerRevision, type RecordedStep } from './recorded-steps.ts';

/** Where the sinks of the tests keep what: paths below their folder. */
export const sinkPaths = {
  sqlite: { ledger: 'test.db', lines: null },
  jsonl: { ledger: 'lake/_ledger.db', lines: 'lake' },
} as const;

export interface SinkCase {
  readonly type: keyof typeof sinkPaths;
  readonly durability: SinkOptions['durability'];
}

export type PowerLossWorld = Awaited<ReturnType<typeof openPowerLossWorld>>;

interface Repaired {
  readonly outcomes: readonly string[];
  /** What `PRAGMA integrity_check` says after the first. */
  readonly integrity: unknown;
  /** From the account, after the first. */
  readonly differences: Differences;
  /** Records that the second one wrote. */
  readonly writtenAgain: number;
}

export const cleanRepair: Repaired = {
  outcomes: ['ok', 'ok'],
  integrity: 'ok',
  differences: noDifferences,
  writtenAgain: 0,
};

const name = 'email-marketing';
const connectorId = 'mailing';
const definition = builtInDefinition(name);
const sample = { definitionName: name, seed: sampleSeed, size: 'tiny' } as const;
/** What is in them happened once, and is kept when its source no longer has it. */
const eventTables = new Set(
  [...definition.entities.values()]
    .filter(({ deletes }) => deletes === 'never')
    .flatMap(({ table, explodedTable }) => [table.entity, explodedTable?.entity]),
);

/**
 * A small account that is served, processes that sync it and are recorded, and syncs that repair what a loss of power
 * has left.
 */
export async function openPowerLossWorld() {
  const folder = realpathSync(mkdtempSync(path.join(tmpdir(), 'power-loss-')));
  const library = compileRecorder(folder);
  const account = revisingAccount(sample);
  const truths = [0, 1].map((revision) => trueRows(name, createSampleAccount({ ...sample, revision })));
  const service = await serveSamples({
    port: 0,
    ...testCredentials,
    definitions: new Map([[name, definition]]),
    accounts: [{ connectorId, workspace: 'default', ...sample, account }],
  });
  const api = { baseUrl: service.url, connectorId };

  const differences = (home: string, { type }: SinkCase, revision: number): Differences => {
    const truth = truths[revision] ?? new Map();
    return differencesFrom(truth, definition, (table) => {
      const rows = sampleSinks[type].rows(home, name, table);
      if (!eventTables.has(table.entity)) return rows;
      const isOfBefore = (key: string): boolean => truths[0]?.get(table.entity)?.has(key) === true;
      return new Map(
        [...rows].filter(([key]) => truth.get(table.entity)?.has(key) === true || !isOfBefore(key)),
      );
    });
  };

  return {
    /**
     * Runs the steps on a folder that holds `before`. Throws where the recording does not make the folder that they
     * have left.
     */
    record: async (
      { type, durability }: SinkCase,
      steps: readonly RecordedStep[],
      before: Contents = new Map(),
    ) => {
      const workFolder = mkdtempSync(path.join(folder, 'recorded-'));
      const recorded = path.join(workFolder, 'sink');
      writeContents(before, recorded);
      const sink = { ...sampleSinks[type].options(recorded), durability };
      const recording = await recordSyncs({
        ...api,
        library,
        workFolder,
        folder: recorded,
        definition: name,
        sink,
        steps,
        moveTo: (revision) => account.moveTo(revision),
      });
      const made = contentsAfter(recording, recording.operations.length, { random: null });
      if (listed(made) !== listed(readContents(recorded))) {
        throw new Error('not all operations were recorded');
      }
      return recording;
    },
    /** What the next two syncs make of what remains. `revision`: of the account that was being read. */
    repair: async ({ type, durability }: SinkCase, left: Contents, revision: number) => {
      const home = mkdtempSync(path.join(folder, 'repaired-'));
      writeContents(left, home);
      account.moveTo(revision);
      const sync = (): Promise<RunReport> =>
        syncOnce({
          ...api,
          definition,
          sink: { ...sampleSinks[type].options(home), durability },
          clock: { ...systemClock, now: () => Date.now() + revision * laterMsPerRevision },
          run: { isFull: revision > 0 },
        });
      const first = await sync();
      const integrity = integrityOf(path.join(home, sinkPaths[type].ledger));
      const found = differences(home, { type, durability }, revision);
      const second = await sync();
      rmSync(home, { recursive: true });
      return {
        outcomes: [first.outcome, second.outcome],
        integrity,
        differences: found,
        writtenAgain: second.entities.reduce(
          (sum, { counts, deleted }) => sum + counts.inserted + counts.updated + deleted,
          0,
        ),
      };
    },
    [Symbol.asyncDispose]: async () => {
      await service.close();
      rmSync(folder, { recursive: true });
    },
  };
}

function integrityOf(file: string): unknown {
  const db = new Database(file);
  try {
    return db.pragma('integrity_check', { simple: true });
  } finally {
    db.close();
  }
}

function listed(contents: Contents): string {
  return [...contents]
    .map(([at, content]) => `${at} ${content?.toString('base64') ?? ''}`)
    .toSorted()
    .join('\n');
}
