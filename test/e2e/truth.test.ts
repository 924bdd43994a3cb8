import { afterEach, describe, expect } from 'vitest';
import { it } from '../support/it.ts';
import type { EntityName } from '../../src/core/names.ts';
import type { ChosenEntities } from '../../src/engine/chosen-entities.ts';
import type { Definition } from '../../src/definitions/definition.ts';
import type { Service } from '../../src/service/start-service.ts';
import { allSampleSinks, shareOf } from '../support/all-sample-sinks.ts';
import {
  builtInDefinition,
  sampleConnectors,
  sampleRows,
  startSampleService,
} from '../support/sample-service.ts';
import { differencesFrom, noDifferences } from '../support/sample-sinks.ts';
import { allEntities, syncOnce } from '../support/sync-once.ts';
import { isLong } from '../support/trials.ts';

const size = isLong ? 'small' : 'tiny';

let folder: string;
let service: Service;

it.beforeEach(async ({ folder: made }) => {
  folder = made;
  service = await startSampleService(size);
});

afterEach(() => service.close());

/** Comments are asked for below blocks too: the service only gives them where they were made. */
function everything(definition: Definition): ChosenEntities {
  const entities = new Map(allEntities(definition));
  if (definition.entities.has('comments' as EntityName)) {
    entities.set('comments' as EntityName, {
      variants: [{}],
      fullEveryMs: 7 * 86_400_000,
      onSchemaChange: 'keepExtra',
      parents: ['pages' as EntityName, 'blocks' as EntityName],
    });
  }
  return entities;
}

describe.each(Object.entries(allSampleSinks))('a whole sync into %s', (type, sink) => {
  // Other tests read the other accounts into these kinds of sink, the larger ones with kills and revisions.
  // Proves promise 3, 6; specification 2.5.5
  it.each(shareOf(type, sampleConnectors, ([id]) => id === (type === 'postgres' ? 'library' : 'notes')))(
    'stores every record of %s exactly as it is, and writes nothing the second time',
    async (connectorId, name) => {
      const definition = builtInDefinition(name);
      const run = {
        baseUrl: service.url,
        definition,
        connectorId,
        sink: sink.options(folder),
        entities: everything(definition),
      };
      const first = await syncOnce(run);
      expect(first.failures).toEqual([]);
      expect(first.outcome).toBe('ok');

      const differences = differencesFrom(sampleRows(name, size), definition, (table) =>
        sink.rows(folder, name, table),
      );
      expect(differences).toEqual(noDifferences);

      const second = await syncOnce(run);
      expect(second.outcome).toBe('ok');
      expect(
        second.entities.map(({ entity, counts }) => ({ entity, written: counts.inserted + counts.updated })),
      ).toEqual(second.entities.map(({ entity }) => ({ entity, written: 0 })));
    },
  );
});
