import { join } from 'node:path';
import type { RunOptions } from '../../../src/engine/run-options.ts';
import type { RunReport } from '../../../src/sinks/run-report.ts';
import type { SinkOptions } from '../../../src/sinks/sink-access.ts';
import { hourMs } from '../../contracts/sink/fixture.ts';
import { instantClock } from '../instant-clock.ts';
import { revisingAccount } from '../revising-account.ts';
import { builtInDefinition, sampleConnectors, sampleSeed } from '../sample-service.ts';
import { serveSamples } from '../serve-samples.ts';
import { stopAtStep, StoppedError } from '../stop-at-step.ts';
import { syncOnce, testCredentials, type SyncOnce } from '../sync-once.ts';

/** The revision that the accounts have reached when a fixture is complete. */
const newest = 3;

/** What a run did to rows. */
export interface Written {
  readonly outcome: string;
  readonly continues: boolean;
  readonly fetched: number;
  readonly written: number;
}

interface Pace {
  /** Of the accounts. */
  readonly revision: number;
  readonly nowMs: number;
}

/** The sample accounts, served, and syncs of them into a sink. */
async function sampleWork(sink: SinkOptions, folder: string, { revision, nowMs }: Pace) {
  const definitions = new Map(sampleConnectors.map(([, name]) => [name, builtInDefinition(name)]));
  const accounts = sampleConnectors.map(([connectorId, definitionName]) => {
    const own = { definitionName, seed: sampleSeed, size: 'tiny' } as const;
    return { ...own, connectorId, workspace: 'default', account: revisingAccount({ ...own, revision }) };
  });
  const service = await serveSamples({ port: 0, ...testCredentials, definitions, accounts });
  const clock = instantClock(nowMs);
  return {
    moveTo: (next: number) => {
      for (const { account } of accounts) account.moveTo(next);
    },
    /**
     * `killed`: stands between the engine and its source and sink, and throws `StoppedError` where the process is to be
     * killed; then null.
     */
    sync: async (
      definitionName: string,
      run: Partial<RunOptions> = {},
      killed: Pick<SyncOnce, 'wrapSource' | 'wrapSink'> = {},
    ): Promise<RunReport | null> => {
      clock.advance(hourMs);
      try {
        return await syncOnce({
          baseUrl: service.url,
          definition: builtInDefinition(definitionName),
          connectorId: sampleConnectors.find(([, name]) => name === definitionName)?.[0] ?? '',
          sink,
          clock,
          concurrency: 1,
          run,
          files: { directory: join(folder, 'files') },
          ...killed,
        });
      } catch (error) {
        if (error instanceof StoppedError) return null;
        throw error;
      }
    },
    now: () => clock.now(),
    [Symbol.asyncDispose]: async () => await service[Symbol.asyncDispose](),
  };
}

const [mailing, notes, library] = sampleConnectors.map(([, name]) => name) as [string, string, string];

/** Rounds of changes in all accounts. The last syncs of two were killed in their middle. Gives the time then. */
export async function syncSamples(sink: SinkOptions, folder: string, nowMs: number): Promise<number> {
  await using work = await sampleWork(sink, folder, { revision: 0, nowMs });
  for (let revision = 0; revision <= newest; revision += 1) {
    work.moveTo(revision);
    const isLast = revision === newest;
    await work.sync(mailing, { isFull: isLast }, isLast ? stopAtStep(60) : {});
    await work.sync(notes, { isFull: true, allowDeletes: !isLast }, isLast ? stopAtStep(60) : {});
    await work.sync(library, { isFull: true, allowDeletes: true });
  }
  return work.now();
}

/**
 * The next syncs against the same accounts: those that resume where the killed ones stopped, and all of everything in
 * full.
 */
export async function syncSamplesAgain(
  sink: SinkOptions,
  folder: string,
  nowMs: number,
): Promise<Readonly<Record<string, Written>>> {
  await using work = await sampleWork(sink, folder, { revision: newest, nowMs });
  const written: Record<string, Written> = {};
  // What was to be read in full is resumed only where that is still wanted.
  for (const name of [mailing, notes]) {
    written[`${name} resumed`] = writtenBy(await work.sync(name, { isFull: true }));
  }
  for (const name of [mailing, notes, library]) {
    written[name] = writtenBy(await work.sync(name, { isFull: true }));
  }
  return written;
}

function writtenBy(report: RunReport | null): Written {
  if (report === null) throw new Error('the sync did not end');
  const { outcome, continues, entities } = report;
  const sum = (of: (one: RunReport['entities'][number]) => number): number =>
    entities.reduce((total, one) => total + of(one), 0);
  return {
    outcome,
    continues: continues !== null,
    fetched: sum(({ counts }) => counts.fetched),
    written: sum(({ counts, deleted }) => counts.inserted + counts.updated + deleted),
  };
}
