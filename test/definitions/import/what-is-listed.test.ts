import { describe, expect } from 'vitest';
import { it } from '../../support/it.ts';
import {
  importText,
  outcomeOf,
  serviceText,
  writtenIn,
  type Listing,
} from '../../support/import/miniature.ts';
import { cursor, onePage } from '../../support/import/traps.ts';

const relationship = (child: string, parent: string, param: string) => ({
  source_entity: child,
  target_entity: parent,
  foreign_key: param,
  target_key: 'id',
});

describe('an optional parameter that the file links to a parent', () => {
  const text = serviceText({
    listings: {
      boards: { more: onePage },
      cards: { params: { board: 'string', label: 'string' }, more: onePage, get: true },
    },
    info: { 'x-airbyte-entity-relationships': [relationship('cards', 'boards', 'board')] },
  });

  it('is filled by that parent, and is no column of a row that several parents have', ({ folder }) => {
    const written = writtenIn(importText(folder, text, 'direct'));
    expect(written).toMatchObject({
      entities: {
        cards: {
          key: ['id'],
          actions: { list: { params: { board: { type: 'string', required: true } } } },
          parents: [{ entity: 'boards', params: { board: 'id' } }],
        },
      },
    });
    expect(JSON.stringify(written)).not.toContain('inject');
  });
});

describe('the request for one record', () => {
  const text = { type: 'string' };
  const made = (folder: string, entity: string, listing: Listing) => {
    const listings = {
      lists: { more: onePage },
      pages: { more: onePage },
      [entity]: { ...listing, more: onePage },
    };
    const links = [relationship(entity, 'lists', 'list_id'), relationship(entity, 'pages', 'block_id')];
    const info = { 'x-airbyte-entity-relationships': links };
    return writtenIn(importText(folder, serviceText({ listings, info }), 'direct'));
  };

  it('takes the id of the parent from the record, where that has it', ({ folder }) => {
    const written = made(folder, 'segments', {
      path: '/lists/{list_id}/segments',
      get: '/lists/{list_id}/segments/{segment_id}',
      record: { id: text, list_id: text },
    });
    expect(written).toMatchObject({
      entities: {
        segments: {
          key: ['list_id', 'id'],
          actions: { get: { key: { list_id: 'list_id', segment_id: 'id' } } },
          parents: [{ entity: 'lists', params: { list_id: 'id' } }],
        },
      },
      upstream: { entities: { segments: { get: { path: '/lists/{list_id}/segments/{segment_id}' } } } },
    });
  });

  it('is left out where a parameter may be another field than the id', ({ folder }) => {
    const written = made(folder, 'members', {
      path: '/lists/{list_id}/members',
      get: '/lists/{list_id}/members/{subscriber_hash}',
      record: { id: text, list_id: text, contact_id: text },
    });
    expect(written).toMatchObject({ entities: { members: { key: ['list_id', 'id'] } } });
    expect(JSON.stringify(written)).not.toContain('subscriber_hash');
  });

  it('takes the own id of a record whose kind is listed below itself', ({ folder }) => {
    const written = made(folder, 'blocks', {
      path: '/blocks/{block_id}/children',
      get: '/blocks/{block_id}',
    });
    expect(written).toMatchObject({
      entities: {
        blocks: {
          key: ['id'],
          actions: { get: { key: { block_id: 'id' } } },
          parents: [{ entity: 'pages', params: { block_id: 'id' }, inject: { block_id: 'block_id' } }],
        },
      },
    });
  });

  it('shows nothing of the id where it reads the record above', ({ folder }) => {
    const written = made(folder, 'notes', { path: '/lists/{list_id}/notes', get: '/lists/{list_id}' });
    expect(written).toMatchObject({ entities: { notes: { key: ['list_id', 'id'] } } });
    expect(JSON.stringify(written)).not.toContain('"get"');
  });
});

describe('what a listing leaves out', () => {
  const query = (entity: string): Listing => ({
    path: `/query:${entity}`,
    params: {
      q: { required: true, schema: { type: 'string', default: `SELECT Id FROM ${entity} LIMIT 200` } },
    },
    more: { ...onePage, 'x-airbyte-path-override': { path: '/query' } },
  });

  it('by a limit in its default has a TODO in each entity', ({ folder }) => {
    const text = serviceText({ listings: { things: query('Thing'), others: query('Other') } });
    expect(outcomeOf(importText(folder, text, 'direct'))).toMatch(
      /^todo: value .*its default \(SELECT Id FROM Thing LIMIT 200\) may leave records out/,
    );
    const imported = importText(folder, text, 'direct');
    expect(outcomeOf(imported, 'others')).toMatch(/^todo: value .*SELECT Id FROM Other LIMIT 200/);
    expect(imported.definition?.text).toMatch(
      /# TODO write what to send as q.*\n {4}fixedParams:\n? .*SELECT Id FROM Thing LIMIT 200/,
    );
  });

  it('because it is a search without a query has a TODO', ({ folder }) => {
    const search: Listing = {
      params: { tql: 'string' },
      more: { ...onePage, 'x-airbyte-action': 'api_search' },
    };
    const imported = importText(folder, serviceText({ listings: { things: search } }), 'direct');
    expect(outcomeOf(imported)).toMatch(/^todo: value .*it is a search for what tql says/);
  });

  const described = (description: string, schema: object = { type: 'string' }) => ({ description, schema });
  const outcomeFor = (folder: string, listing: Listing, mode: 'direct' | 'hosted' = 'direct'): string =>
    outcomeOf(importText(folder, serviceText({ listings: { things: { more: onePage, ...listing } } }), mode));

  it.for([
    ['a parameter by its own words', { open: described('Show closed things too (excluded by default)') }, ''],
    [
      'a parameter without a value',
      { state: described('If no value is supplied, those not ended are returned.') },
      '',
    ],
    ['an implied search', { q: described('A search. If not sent, an implied "is:open" is assumed.') }, ''],
    [
      'the words of the listing, which name the parameter',
      { since: described('ISO 8601', { type: 'string', format: 'date-time' }) },
      'Lists things. By default those of the past 30 days. Use `since` for older ones.',
    ],
    [
      'a default beside all',
      { state: { schema: { type: 'string', enum: ['all', 'on'], default: 'on' } } },
      '',
    ],
  ] as const)('by %s has a TODO', ([, params, description], { folder }) => {
    expect(outcomeFor(folder, { params, more: { ...onePage, description } })).toMatch(
      /^todo: value .*(?:without it records are left out|its default \(on\) may leave records out)/,
    );
  });

  it('outside a time that the call names has a TODO, where one answer has all of that time', ({ folder }) => {
    const params = { start_date: 'string', unit: 'string' };
    const more = { 'x-airbyte-no-pagination': 'A bounded set, scoped to the requested start_date/end_date.' };
    expect(outcomeFor(folder, { params, more })).toMatch(/^todo: value .*without it records are left out/);
  });

  it.for([
    { q: described('If no value is supplied, all things are returned.') },
    { state: { schema: { type: 'string', enum: ['all', 'on'], default: 'all' } } },
    { tags_match: { schema: { type: 'string', enum: ['all', 'any'], default: 'any' } } },
    { unit: { schema: { type: 'string', enum: ['ALL', 'DAY'], default: 'DAY' } } },
    { fields: described('The fields. If not provided, uses default fields.') },
  ])('is not what %j says', (params, { folder }) => {
    expect(outcomeFor(folder, { params })).toBe('converted');
  });

  it.for([
    'By default only open things are returned.',
    'At least one search filter must be provided.',
    'Criteria: at least one is required, if none is given there is an error.',
  ])('and no parameter is named for it is refused: %s', (description, { folder }) => {
    const listing = { params: { state: 'string' }, more: { ...onePage, description } };
    expect(outcomeFor(folder, listing)).toMatch(/^refused: it does not list everything by itself/);
  });

  it('because its first page needs a token of another request is refused', ({ folder }) => {
    const description = 'Token of the page (from changes.getStartPageToken or the response before)';
    const params = { cursor: { description, schema: { type: 'string' } } };
    const text = serviceText({ listings: { things: { ...cursor, params } } });
    expect(outcomeOf(importText(folder, text, 'hosted'))).toMatch(/^refused: its first page needs a cursor/);
  });
});

describe('a listing that is sorted with the newest first by default', () => {
  it.for([
    ['ascending', undefined],
    ['ascending', ['ascending', 'descending']],
    ['descending', ['descending', 'random']],
  ] as const)('is asked for as %s where the file permits %s', ([sent, choices], { folder }) => {
    const direction = { type: 'string', default: 'descending', enum: choices };
    const properties = { by: { type: 'string', default: 'id' }, to: direction };
    const params = {
      ...cursor.params,
      order: { schema: direction },
      sort: { schema: { type: 'object', properties } },
    };
    const text = serviceText({ listings: { things: { ...cursor, params } } });
    expect(writtenIn(importText(folder, text, 'hosted'))).toMatchObject({
      entities: { things: { fixedParams: { order: sent, sort: { by: 'id', to: sent } } } },
    });
  });
});

describe('the check of a definition', () => {
  it('has the header, the body and the size that its listing needs', ({ folder }) => {
    const properties = { owner: { type: 'string' }, first: { type: 'integer', maximum: 50 } };
    const body = { required: ['owner'], properties: { ...properties, after: { type: 'string' } } };
    const listing: Listing = {
      method: 'post',
      params: {
        'X-Operation': { in: 'header', required: true, schema: { type: 'string', default: 'list things' } },
      },
      meta: { next: '$.next_cursor' },
      answer: { next_cursor: { type: 'string' } },
      more: { requestBody: { content: { 'application/json': { schema: body } } } },
    };
    const imported = importText(folder, serviceText({ listings: { things: listing } }), 'direct');
    expect(writtenIn(imported)).toMatchObject({
      upstream: {
        check: { body: { owner: 'todo', first: 1 }, headers: { 'X-Operation': 'list things' } },
      },
    });
  });
});

describe('the address of a service', () => {
  const server = {
    url: 'https://desk-{region}.corner-shop.com',
    variables: { region: { default: 'na', enum: ['US', 'DE'] } },
    'x-airbyte-replication-environment-mapping': { region: "{{ 'na' if value == 'US' else 'eu' }}" },
  };
  const text = serviceText({ listings: { things: { more: onePage } }, servers: [server] });

  it('has a TODO where a template computes it, with its default as the example', ({ folder }) => {
    const imported = importText(folder, text, 'direct');
    expect(writtenIn(imported)).toMatchObject({ upstream: { baseUrl: 'https://desk-todo.corner-shop.com' } });
    expect(imported.definition?.text).toMatch(
      /# TODO write the address of the service, .*what stands for region \(such as na\)\?\n {2}baseUrl:/,
    );
  });
});
