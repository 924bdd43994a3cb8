import { expect } from 'vitest';
import { it } from '../../support/it.ts';
import type { Entity } from '../../../src/definitions/definition.ts';
import {
  definitions,
  mailing,
  object,
  objects,
  sampleAccounts,
  serveApi,
  text,
} from '../../support/service/served-api.ts';
import { searchable } from '../../support/service/store-world.ts';

it('searches an entity whose definition has the action and names no searchable fields, by all columns', async ({
  folder,
}) => {
  const definition = definitions.get('email-marketing');
  const found = [...(definition?.entities.values() ?? [])];
  const search = found.find(({ name }) => name === 'lists')?.actions.get('context_store_search');
  if (definition === undefined || search === undefined) throw new Error('nothing to search');
  const entities = found.map((entity): [Entity['name'], Entity] => [
    entity.name,
    entity.name === 'automations'
      ? { ...entity, actions: new Map([...entity.actions, ['context_store_search', search]]) }
      : entity,
  ]);
  const known = new Map([['email-marketing', { ...definition, entities: new Map(entities) }]]);
  const accounts = sampleAccounts('tiny').slice(0, 1);
  await using api = await serveApi({ data: folder, definitions: known, accounts });
  await searchable(api.service.stores, mailing);
  const { records } = await api.list(mailing, 'automations', { count: 1000 });
  const { status, body } = await api.execute(mailing, {
    entity: 'automations',
    action: 'context_store_search',
    params: { query: { sort: [{ id: 'asc' }] } },
  });
  expect(status).toBe(200);
  const data = objects(object(body['result'])['data']);
  expect(data.map(({ id }) => id)).toEqual(records.map(({ id }) => text(id)).toSorted());
  expect(Object.keys(data[0] ?? {})).toEqual([
    ...(definition.entities.get(entityOf(found, 'automations').name)?.fields.keys() ?? []),
  ]);
}, 90_000);

function entityOf(entities: readonly Entity[], wanted: string): Entity {
  const found = entities.find(({ name }) => name === wanted);
  if (found === undefined) throw new Error(`no ${wanted}`);
  return found;
}
