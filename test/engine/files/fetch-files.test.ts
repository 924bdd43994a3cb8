import { expect, it } from 'vitest';
import { systemClock } from '../../../src/core/clock.ts';
import { SyncError } from '../../../src/core/errors.ts';
import type { ConnectorName, EntityName, RunId } from '../../../src/core/names.ts';
import { fetchFiles } from '../../../src/engine/sync-connector.ts';
import { fileTally, type FileOptions } from '../../../src/engine/run-tally.ts';
import type { Run } from '../../../src/engine/run.ts';
import type { WantedFile } from '../../../src/sinks/files.ts';
import type { Sink } from '../../../src/sinks/sink-access.ts';

const entity = 'attachments' as EntityName;
const wanted = (id: number): WantedFile => ({
  id,
  entity,
  keyText: `["a${id}"]`,
  params: {},
  version: 'v1',
  name: null,
  contentType: null,
  size: null,
});

it('ends the fetches in flight before it reports that the ledger has failed', async () => {
  let asked = 0;
  let hasEnded = false;
  const failure = new SyncError('locked', { code: 'SINK_FAILED', recovery: 'retry' });
  const files: Sink['files'] = {
    next: () => (asked++ === 0 ? Promise.resolve([wanted(1), wanted(2)]) : Promise.reject(failure)),
    stored: () => Promise.resolve(),
    setAside: () => Promise.resolve(),
    left: () => Promise.resolve([]),
    replaced: () => Promise.resolve([]),
    removed: () => Promise.resolve(),
    unknown: () => Promise.resolve([]),
  };
  let downloads = 0;
  const run = {
    sink: { files },
    lease: {
      connector: 'library' as ConnectorName,
      epoch: 1,
      [Symbol.asyncDispose]: () => Promise.resolve(),
    },
    id: 'r1' as RunId,
    plan: { kind: 'sync', entities: [entity] },
    files: {
      entities: new Set([entity]),
      maxBytes: 10,
      folder: {
        prepare: () => Promise.resolve([]),
        store: () => Promise.reject(failure),
        remove: () => Promise.resolve(),
        rename: () => Promise.resolve(),
      },
      source: {
        download: async (_request, _receive, signal) => {
          downloads += 1;
          if (downloads === 1) throw new SyncError('gone', { code: 'NOT_FOUND', recovery: 'skip-partition' });
          await new Promise((resolve) => signal.addEventListener('abort', resolve));
          await new Promise((resolve) => setTimeout(resolve, 20));
          hasEnded = true;
          throw signal.reason;
        },
      },
    } satisfies FileOptions,
    concurrency: 2,
    fileTally: fileTally(),
    clock: systemClock,
    onEvent: () => undefined,
    signal: new AbortController().signal,
  };
  await expect(fetchFiles(run as unknown as Run)).rejects.toBe(failure);
  expect(hasEnded).toBe(true);
});
