import { describe, expect } from 'vitest';
import type { Params } from '../../src/core/records.ts';
import type { RunReport } from '../../src/sinks/run-report.ts';
import type { SampleAccount } from '../../src/sample/sample-account.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import { it } from '../support/it.ts';
import { serveSamples } from '../support/serve-samples.ts';
import { isLong } from '../support/trials.ts';
import { syncOnce, testCredentials } from '../support/sync-once.ts';

const definitions = loadDefinitions([builtInDefinitionsFolder]);
const definition = definitions.get('email-marketing');
if (definition === undefined) throw new Error('no definition email-marketing');
const connectorId = 'mailing-1';

// In `npm test` test/pagination/total.test.ts says what a total is good for.
describe.runIf(isLong)('a first load of the small mailing account', () => {
  it('takes at most 70 % of the calls where answers say how many records there are, and stores the same', async ({
    folder,
  }) => {
    const load = async (
      name: string,
      wrap: (account: SampleAccount) => SampleAccount,
    ): Promise<RunReport> => {
      await using service = await serveSamples({
        port: 0,
        definitions,
        ...testCredentials,
        accounts: [
          {
            connectorId,
            definitionName: 'email-marketing',
            workspace: 'default',
            seed: 7,
            size: 'small',
            wrap,
          },
        ],
      });
      const sink = { type: 'sqlite', name, path: `${folder}/${name}.db`, durability: 'normal' } as const;
      return await syncOnce({ baseUrl: service.url, definition, connectorId, sink });
    };
    const without = await load('without', (account) => account);
    const withTotal = await load('with-total', tellingTotals);
    expect([without.outcome, withTotal.outcome]).toEqual(['ok', 'ok']);
    expect(rowsOf(withTotal)).toEqual(rowsOf(without));
    expect(withTotal.calls / without.calls).toBeLessThanOrEqual(0.7);
  }, 300_000);
});

/** As the service itself answers: its `total_items` beside the links. */
function tellingTotals(account: SampleAccount): SampleAccount {
  const totals = new Map<string, number>();
  return {
    ...account,
    list: (entity: string, { count: _count, offset: _offset, ...params }: Params) => {
      const listing = account.list(entity, params);
      const key = JSON.stringify([entity, params]);
      const total = totals.get(key) ?? listing.slice(0, Number.MAX_SAFE_INTEGER).length;
      totals.set(key, total);
      return { ...listing, metadata: { ...listing.metadata, total_items: total } };
    },
  };
}

function rowsOf({ entities }: RunReport): unknown {
  return entities.map(({ entity, counts }) => ({ entity, inserted: counts.inserted }));
}
