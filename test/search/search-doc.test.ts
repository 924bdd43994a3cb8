import { readFileSync } from 'node:fs';
import { afterAll, describe, expect, it } from 'vitest';
import * as z from 'zod';
import { openSearchWorld } from '../support/search/search-world.ts';
import { entityName } from '../support/source/test-definition.ts';
import { builtInDefinitionsFolder, loadDefinitions } from '../../src/definitions/load-definitions.ts';
import { searchLimits } from '../../src/search/search-request.ts';

const document = readFileSync('docs/search.md', 'utf8');

describe('docs/search.md', () => {
  const campaigns = loadDefinitions([builtInDefinitionsFolder])
    .get('email-marketing')
    ?.entities.get(entityName('campaigns'));
  if (campaigns === undefined) throw new Error('no campaigns');
  const world = openSearchWorld(campaigns);
  afterAll(async () => {
    await world[Symbol.asyncDispose]();
  });
  const [, records = ''] = /```json records=campaigns\n(.*?)\n```/s.exec(document) ?? [];
  for (const record of z.array(z.record(z.string(), z.json())).parse(JSON.parse(records))) {
    world.store(record);
  }

  const examples = [
    ...document.matchAll(/```json filter=campaigns(?: sort=(\S+))?\n(.*?)\n```\n\nFinds ([^\n]+)\./gs),
  ].map(([, sort = '[]', filter = '', found = '']) => ({
    filter,
    query: { filter: JSON.parse(filter) as unknown, sort: JSON.parse(sort) as unknown },
    ids: [...found.matchAll(/`(\w+)`/g)].map(([, id]) => id),
  }));

  it('has an example for every operator that is not plain from another', () => {
    expect(examples.length).toBe(document.split('```json filter=').length - 1);
    expect(examples.length).toBeGreaterThan(10);
  });

  // Proves specification 4.6.5
  it.each(examples)('finds what it says: $filter', async ({ query, ids }) => {
    expect(await world.ids({ query })).toEqual(ids);
  });

  it('shows what it says', async () => {
    const query = { filter: { in: { id: ['c1', 'c4'] } } };
    const shown = (await world.search({ query, fields: ['id', 'settings.title'] })).data;
    expect(shown).toEqual(
      [...document.matchAll(/`(\{"id": "c\d".*?\})`/g)].map(([, text = '']) => JSON.parse(text) as unknown),
    );
    expect(shown).toHaveLength(2);
  });

  it('refuses what it says in the words it says', async () => {
    const [, message = ''] = /`(query\.filter\.and\[2\][^`]+)`/.exec(document) ?? [];
    const and = [{ eq: { id: 'c1' } }, { eq: { id: 'c1' } }, { eq: { status: 5 } }];
    await expect(world.search({ query: { filter: { and } } })).rejects.toThrow(message);
  });

  it('states the limits that hold', () => {
    const table = /## Limits\n(.*?)\n\n[^|]/s.exec(document)?.[1] ?? '';
    const values = [...table.matchAll(/\| ([\d]+)( KiB)? *\|$/gm)].map(
      ([, number, unit]) => Number(number) * (unit === undefined ? 1 : 1024),
    );
    expect(values).toEqual([
      searchLimits.depth,
      searchLimits.nodes,
      searchLimits.inValues,
      searchLimits.patternChars,
      searchLimits.words,
      searchLimits.sortFields,
      searchLimits.fields,
      searchLimits.pathParts,
      searchLimits.limit,
      searchLimits.queryBytes,
      searchLimits.cursorBytes,
    ]);
  });
});
