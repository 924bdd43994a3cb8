import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { beforeEach, onTestFinished } from 'vitest';
import type { Definition } from '../../src/definitions/definition.ts';
import type { RunReport } from '../../src/sinks/run-report.ts';
import type { Row } from './expected-rows.ts';
import type { HostileCall, Reply } from './hostile/replies.ts';
import { startHostileServer, type HostileServerOptions } from './hostile-server.ts';
import { instantClock } from './instant-clock.ts';
import { sampleSinks } from './sample-sinks.ts';
import { chosenEntities, entityNamed, syncOnce, type SyncOnce } from './sync-once.ts';

/**
 * For the tests of a file: runs of a connector, read from an API that answers as each test says, into the SQLite sink
 * of the test's folder, on a clock whose waits are over at once.
 */
export function useHostedRuns() {
  let made = '';
  let begun = 0;
  let folder = '';
  beforeEach(() => {
    made = mkdtempSync(path.join(tmpdir(), 'connector-sync-'));
    folder = made;
    onTestFinished(() => rmSync(made, { recursive: true, force: true }));
  });
  return {
    folder: (): string => folder,
    /** The rows of an entity by their keys. */
    rows: (definition: Definition, entity: string): ReadonlyMap<string, Row> =>
      sampleSinks.sqlite.rows(folder, definition.name, entityNamed(definition, entity).table),
    /** What follows is stored elsewhere. */
    begin: (): void => {
      begun += 1;
      folder = path.join(made, String(begun));
    },
    async open(
      definition: Definition,
      respond: (call: HostileCall) => Reply,
      more: HostileServerOptions = {},
    ) {
      const connectors = [{ id: 'c1', name: 'One', definitionId: definition.id }];
      const server = await startHostileServer({ connectors, respond, ...more });
      onTestFinished(() => server[Symbol.asyncDispose]());
      const sync = async (entities: readonly string[], more: Partial<SyncOnce> = {}): Promise<RunReport> =>
        await syncOnce({
          baseUrl: server.baseUrl,
          definition,
          connectorId: 'c1',
          sink: sampleSinks.sqlite.options(folder),
          entities: chosenEntities(definition, entities),
          clock: instantClock(),
          ...more,
        });
      return { server, sync };
    },
  };
}
