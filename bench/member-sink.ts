import { hostname } from 'node:os';
import { instant, systemClock } from '../src/core/clock.ts';
import type { ConnectorId, ConnectorName, EntityName } from '../src/core/names.ts';
import type { Definition } from '../src/definitions/definition.ts';
import { syncConnector } from '../src/engine/sync-connector.ts';
import { createSampleAccount } from '../src/sample/sample-service.ts';
import type { SampleAccount } from '../src/sample/sample-account.ts';
import type { Sink } from '../src/sinks/sink-access.ts';
import { openSqliteSink } from '../src/sinks/sqlite/sqlite-sink.ts';
import { type Source, readRecords } from '../src/source/source.ts';

export const benchConnector = 'bench' as ConnectorName;

/** A new SQLite sink with members. */
export async function fillMemberSink(file: string, definition: Definition, members: number): Promise<void> {
  await using sink = await openSqliteSink({ file, durability: 'normal', clock: systemClock });
  await fillMembers(sink, definition, members);
}

/** Syncs the list members of a sample account into a new sink, without the network. */
export async function fillMembers(sink: Sink, definition: Definition, members: number): Promise<void> {
  const account = createSampleAccount({ definitionName: definition.name, seed: 7, size: { members } });
  const everything = { variants: [{}], fullEveryMs: 0, onSchemaChange: 'keepExtra' } as const;
  const report = await syncConnector({
    identity: {
      connector: benchConnector,
      baseUrl: 'http://bench',
      connectorId: 'bench' as ConnectorId,
      definition: definition.name,
      definitionHash: definition.contentHash,
      holder: { pid: process.pid, host: hostname(), command: 'bench', since: instant(Date.now()) },
    },
    definition,
    entities: new Map([
      ['lists' as EntityName, { ...everything, parents: [] }],
      ['list_members' as EntityName, { ...everything, parents: ['lists' as EntityName] }],
    ]),
    source: sourceOf(account),
    sink,
    concurrency: 2,
    requestsPerSecond: 1_000,
    clock: systemClock,
    onEvent: () => undefined,
    signal: new AbortController().signal,
  });
  if (report.outcome !== 'ok') throw new Error(`${report.outcome}: ${JSON.stringify(report.failures)}`);
}

/** Records after a JSON round trip, as a service would send them. */
function sourceOf(account: SampleAccount): Source {
  return {
    connect: () => Promise.resolve(),
    list: ({ entity, params }) => {
      const { count, offset, ...rest } = params;
      const size = Math.min(Number(count ?? 10), 1_000);
      const found = account.list(entity, rest).slice(Number(offset ?? 0), size);
      const records = JSON.parse(JSON.stringify(found)) as typeof found;
      return Promise.resolve({
        records: readRecords(records),
        fetched: records.length,
        next: null,
        serverTime: null,
        bytes: 0,
      });
    },
    get: () => Promise.resolve(null),
    stats: () => ({ calls: 0, retries: 0, throttled: 0, waitedMs: 0, bytes: 0, serverTime: null }),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}
