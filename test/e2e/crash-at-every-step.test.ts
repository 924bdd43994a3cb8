import { mkdirSync, rmSync } from 'node:fs';
import path from 'node:path';
import { afterAll, describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import type { Service } from '../../src/service/start-service.ts';
import { builtInDefinition, startSampleService, storedByDefault } from '../support/sample-service.ts';
import { allSampleSinks, shareOf } from '../support/all-sample-sinks.ts';
import { differencesFrom, noDifferences } from '../support/sample-sinks.ts';
import { StoppedError, stopAtStep } from '../support/stop-at-step.ts';
import { allEntities, syncOnce, type SyncOnce } from '../support/sync-once.ts';
import { isLong, startSeed } from '../support/trials.ts';

let service: Service;
let folder: string;

it.beforeAll(async ({ fileFolder: made }) => {
  service = await startSampleService('tiny');
  folder = made;
});

afterAll(() => service.close());

/** Another thirteenth of the steps every time, of `npm test` a thirty-first; STRIDE=1 tries them all. */
const stride = Number(process.env['STRIDE'] ?? (isLong ? 13 : 47));
/** A step in PostgreSQL takes a server's answers. */
const strideOf = (type: string): number => (type === 'postgres' && !isLong ? 3 : 1) * stride;
const seed = startSeed();
const offset = seed % stride;

const connectors = { mailing: 'email-marketing', notes: 'workspace-notes' } as const;

describe.each(Object.entries(allSampleSinks))(
  'a run into %s that stops at any one step',
  (sinkName, sink) => {
    // The mailing account in the other kinds of sink: `npm run test:long`.
    // Proves promise 1
    it.each(shareOf(sinkName, Object.entries(connectors), ([id]) => id === 'notes'))(
      `is resumed by the next one, and nothing of %s is lost, doubled or read far too often (seed ${seed})`,
      async (connectorId, name) => {
        const definition = builtInDefinition(name);
        const truth = storedByDefault(name, 'tiny');
        let undisturbedCalls = 0;

        for (
          let stopAt = Number.MAX_SAFE_INTEGER, total = 0, next = 1;
          next <= total || total === 0;
          next += strideOf(sinkName)
        ) {
          const home = path.join(folder, `${sinkName}-${connectorId}-${next}`);
          mkdirSync(home, { recursive: true });
          const run: SyncOnce = {
            baseUrl: service.url,
            definition,
            connectorId,
            sink: sink.options(home),
            entities: allEntities(definition),
            concurrency: 3,
          };
          if (total > 0) stopAt = next;
          const stop = stopAtStep(stopAt);
          let calls = 0;
          const counting = {
            ...run,
            onEvent: (event: { kind: string }) => (calls += event.kind === 'page-requested' ? 1 : 0),
          };
          await syncOnce({ ...counting, wrapSource: stop.wrapSource, wrapSink: stop.wrapSink }).catch(
            (error: unknown) => {
              if (!(error instanceof StoppedError)) throw error;
            },
          );
          if (total === 0) {
            total = stop.reached().steps;
            undisturbedCalls = calls;
            next = 1 + offset - strideOf(sinkName);
            expect(total).toBeGreaterThan(50);
            continue;
          }
          const report = await syncOnce(counting);
          const where = `stopped at step ${next} of ${total}, ${stop.reached().last}, seed ${seed}`;
          expect({ where, outcome: report.outcome }).toEqual({ where, outcome: 'ok' });
          const differences = differencesFrom(truth, definition, (table) => sink.rows(home, name, table));
          expect({ where, ...differences }).toEqual({ where, ...noDifferences });
          // Stopped with nothing left to read, the next run is a run of its own. Of each of three walks, five pages may
          // be in flight.
          const allowed = (report.continues === null ? 2 : 1.1) * undisturbedCalls + 15;
          expect({ where, tooMany: Math.max(0, calls - allowed) }).toEqual({ where, tooMany: 0 });
          rmSync(home, { recursive: true, force: true });
        }
      },
      120_000,
    );
  },
);
