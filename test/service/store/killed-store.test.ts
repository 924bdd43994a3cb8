import { expect, it } from 'vitest';
import type { Provider } from '../../../src/service/provider.ts';
import { storeEntities } from '../../../src/service/store/store-ledger.ts';
import { sampleTruth } from '../../support/sample-truth.ts';
import { expectedRows } from '../../support/expected-rows.ts';
import { instantClock } from '../../support/instant-clock.ts';
import { sameRow } from '../../support/same-row.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { sqliteRows } from '../../support/stored-rows.ts';
import {
  definitionNamed,
  providerOf,
  sampleOf,
  searchable,
  storeWorld,
  syncProcesses,
} from '../../support/service/store-world.ts';
import { isLong, repeats } from '../../support/trials.ts';

/** KILLS asks for more. */
const kills = repeats('KILLS', { share: 2, full: 20 });

it.each(['workspace-notes', ...(isLong ? ['email-marketing'] : [])])(
  'has all of %s after its syncs were killed at any moment',
  async (name) => {
    await using world = storeWorld({ clock: instantClock() });
    const account = sampleOf(name);
    const random = seededRandom(kills);
    const provider = providerOf(name, account);
    const killed: number[] = [];
    let callsLeft = 1;
    const murderous: Provider = {
      ...provider,
      list: async (request) => {
        callsLeft -= 1;
        if (callsLeft === 0 && killed.length < kills) {
          callsLeft = 1 + Math.floor(random() * 12);
          const [pid] = syncProcesses();
          // One that was killed still asks until the signal has reached it.
          if (pid !== undefined && !killed.includes(pid)) {
            killed.push(pid);
            // Now, or while it stores what came before.
            setTimeout(() => process.kill(pid, 'SIGKILL'), Math.floor(random() * 5));
          }
        }
        return await provider.list(request);
      },
    };
    world.keep('one', name, murderous);
    await searchable(world.stores, 'one');
    while (killed.length < kills) await world.refresh('one');
    await world.refresh('one');

    expect(new Set(killed).size).toBe(kills);
    expect(world.stores.status('one')).toMatchObject({ readiness: 'Ready', problem: null });
    const definition = definitionNamed(name);
    for (const entityName of storeEntities(definition).keys()) {
      const entity = definition.entities.get(entityName);
      if (entity === undefined) throw new Error(entityName);
      const { rows, exploded } = expectedRows(entity, sampleTruth(account, entityName));
      const tables = [[entity.table, rows] as const];
      if (entity.explodedTable !== null) tables.push([entity.explodedTable, exploded]);
      for (const [table, expected] of tables) {
        const stored = sqliteRows(world.file('one'), 'store', table);
        expect([...stored.keys()].sort()).toEqual([...expected.keys()].sort());
        const different = [...expected].filter(([key, row]) => {
          const found = stored.get(key);
          return found === undefined || !sameRow(found, row);
        });
        expect(different.map(([key]) => `${table.entity} ${key}`)).toEqual([]);
      }
    }
  },
);
