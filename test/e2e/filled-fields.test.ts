import { expect } from 'vitest';
import { it } from '../support/it.ts';
import type { JsonObject } from '../../src/core/json.ts';
import type { Definition } from '../../src/definitions/definition.ts';
import type { RunReport } from '../../src/sinks/run-report.ts';
import { success } from '../support/hostile/replies.ts';
import { startHostileServer } from '../support/hostile-server.ts';
import { instantClock } from '../support/instant-clock.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { allSampleSinks } from '../support/all-sample-sinks.ts';
import { chosenEntities, entityNamed, syncOnce } from '../support/sync-once.ts';
import { triedSinks } from '../support/trials.ts';

const mailing = builtInDefinition('email-marketing');
const reports = entityNamed(mailing, 'reports');
/** As it was before its fields were filled from others. */
const earlier: Definition = {
  ...mailing,
  entities: new Map([...mailing.entities, [reports.name, { ...reports, filledFrom: new Map() }]]),
};

const likes = { recipient_likes: 1, unique_likes: 1, facebook_likes: 2 };
const old = { id: 'old', emails_sent: 5, send_time: '2024-01-01T00:00:00+00:00', facebook_likes: likes };
const other = { ...old, id: 'other' };

it.for(triedSinks)(
  'fills social_likes of a report in %s, and rewrites no row that was stored without it',
  async (kind, { folder }) => {
    let served: readonly JsonObject[] = [old, other];
    await using server = await startHostileServer({
      connectors: [{ id: 'c1', name: 'One', definitionId: mailing.id }],
      respond: ({ params }) => success(served.slice(Number(params['offset'] ?? 0)), { links: [] }),
    });
    const sync = async (
      definition: Definition,
    ): Promise<RunReport['entities'][number]['counts'] | undefined> => {
      const report = await syncOnce({
        baseUrl: server.baseUrl,
        definition,
        connectorId: 'c1',
        sink: allSampleSinks[kind].options(folder),
        entities: chosenEntities(definition, ['reports']),
        clock: instantClock(),
        run: { isFull: true },
      });
      expect(report.outcome).toBe('ok');
      return report.entities.find(({ entity }) => entity === 'reports')?.counts;
    };
    const stored = (): readonly unknown[] =>
      [...allSampleSinks[kind].rows(folder, mailing.name, reports.table).values()].map(
        ({ columns, extra }) => [columns['id'], columns['social_likes'], extra?.['facebook_likes']],
      );

    expect(await sync(earlier)).toMatchObject({ inserted: 2 });
    expect(stored()).toEqual([
      ['old', null, likes],
      ['other', null, likes],
    ]);
    for (const social_likes of [undefined, null, likes]) {
      served = [old, other].map((record) =>
        social_likes === undefined ? record : { ...record, social_likes },
      );
      expect(await sync(mailing)).toMatchObject({ inserted: 0, updated: 0, unchanged: 2 });
    }
    served = [old, { ...other, emails_sent: 6 }, { ...old, id: 'new' }];
    expect(await sync(mailing)).toMatchObject({ inserted: 1, updated: 1, unchanged: 1 });
    expect(stored()).toEqual([
      ['old', null, likes],
      ['other', likes, likes],
      ['new', likes, likes],
    ]);
  },
);
