import { expect, it } from 'vitest';
import { tellProgress } from '../../src/app/worker-runs.ts';
import type { ConnectorName, EntityName } from '../../src/core/names.ts';
import { noCounts } from '../../src/core/records.ts';
import { openLog } from '../../src/telemetry/log.ts';
import { instantClock } from '../support/instant-clock.ts';

it('says once a minute how far a run is, and nothing of a short one', async () => {
  const lines: unknown[] = [];
  const log = await openLog({ level: 'info', write: (line) => lines.push(JSON.parse(line)) });
  const clock = instantClock();
  const onEvent = tellProgress(log, 'news' as ConnectorName, clock);
  const page = (records: number): void =>
    onEvent({
      kind: 'page-committed',
      entity: 'lists' as EntityName,
      counts: { ...noCounts, fetched: records },
      newlyDue: 0,
      bytes: 1,
    });
  for (let second = 0; second < 59; second += 1) {
    clock.advance(1000);
    page(10);
  }
  expect(lines).toEqual([]);
  for (let second = 0; second < 61; second += 1) {
    clock.advance(1000);
    page(10);
  }
  expect(lines).toMatchObject([
    { msg: 'run in progress', connector: 'news', entity: 'lists', pages: 60, records: 600 },
    { pages: 120, records: 1200 },
  ]);
});
