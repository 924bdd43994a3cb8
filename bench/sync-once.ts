import { hostname } from 'node:os';
import { systemClock, instant } from '../src/core/clock.ts';
import type { ConnectorId, ConnectorName, EntityName } from '../src/core/names.ts';
import { Secret } from '../src/core/secret.ts';
import { loadDefinitions } from '../src/definitions/load-definitions.ts';
import { syncConnector } from '../src/engine/sync-connector.ts';
import { openSink } from '../src/sinks/registry.ts';
import type { SinkOptions } from '../src/sinks/sink-access.ts';
import { openApiClient } from '../src/source/api/open-api-client.ts';
import { openApiSource } from '../src/source/api/open-api-source.ts';
import { readRecords } from '../src/source/source.ts';
import type { Source } from '../src/source/source.ts';

/**
 * One sync of lists and list_members with all promises. `node sync-once.js <base url> <sink options as JSON> [read |
 * history]`; prints its result as JSON. `read`: no record is recognized by its bytes. `history`: versions are kept.
 */
const [baseUrl = '', sinkOptions = '{}', how] = process.argv.slice(2);
const definition = loadDefinitions(['config/definitions']).get('email-marketing');
if (definition === undefined) throw new Error('no definition email-marketing');

const startedMs = performance.now();
const { signal } = new AbortController();
await using client = openApiClient({
  api: {
    baseUrl,
    clientId: 'bench',
    clientSecret: new Secret('bench'),
    organizationId: null,
  },
});
await using source = openApiSource(client, {
  definition,
  connectorId: 'bench' as ConnectorId,
  address: baseUrl,
  concurrency: 4,
  requestsPerSecond: 10_000,
});
// Always in full: the benchmark compares reading everything twice.
const everything = {
  variants: [{}],
  fullEveryMs: 0,
  onSchemaChange: 'keepExtra',
  history: how === 'history' ? { keepMs: null } : null,
} as const;
await using sink = await openSink(JSON.parse(sinkOptions) as SinkOptions, { clock: systemClock });
const report = await syncConnector({
  identity: {
    connector: 'bench' as ConnectorName,
    // The port of the server changes; the ledger must see the same address each time.
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
  source: how === 'read' ? readWhole(source) : source,
  sink,
  concurrency: 4,
  requestsPerSecond: 1_000,
  clock: systemClock,
  onEvent: () => undefined,
  signal,
});
if (report.outcome !== 'ok') {
  throw new Error(`${report.outcome}: ${report.error?.message ?? JSON.stringify(report.failures)}`);
}
const counts = report.entities.find(({ entity }) => entity === 'list_members')?.counts;
const { userCPUTime, systemCPUTime, maxRSS } = process.resourceUsage();
const result = {
  rows: (counts?.inserted ?? 0) + (counts?.unchanged ?? 0) + (counts?.updated ?? 0),
  written: (counts?.inserted ?? 0) + (counts?.updated ?? 0),
  ms: performance.now() - startedMs,
  cpuMs: (userCPUTime + systemCPUTime) / 1000,
  rssMiB: maxRSS / 1024,
};
process.stdout.write(`${JSON.stringify(result)}\n`);

function readWhole(unread: Source): Source {
  return {
    ...unread,
    list: async (request, listSignal) => {
      const page = await unread.list(request, listSignal);
      return { ...page, records: readRecords([...page.records]) };
    },
  };
}
