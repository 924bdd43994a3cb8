import { isDeclaredName, type EntityName } from '../../../src/core/names.ts';
import type {
  Action,
  Definition,
  Entity,
  ErrorPattern,
  Pagination,
  Param,
} from '../../../src/definitions/definition.ts';

export function entityName(text: string): EntityName {
  if (!isDeclaredName(text)) throw new Error(`no entity name: ${text}`);
  return text;
}

/** `members` pages by offset, `notes` by token, `tags` comes whole; all have `list`, members and notes have `get`. */
export function testDefinition(errors: readonly ErrorPattern[] = []): Definition {
  const entities = [
    entity('members', ['list_id', 'count', 'offset'], ['member_id'], {
      kind: 'offset',
      offsetParam: 'offset',
      sizeParam: 'count',
      maxSize: 1000,
      totalKeys: [],
    }),
    entity('notes', ['page_size', 'start_cursor'], ['note_id'], {
      kind: 'pageToken',
      tokenParam: 'start_cursor',
      sizeParam: 'page_size',
      maxSize: 100,
      flagKeys: ['has_more'],
      tokenKeys: ['next_cursor'],
      lifetimeMs: 60_000,
      totalKeys: [],
    }),
    entity('tags', ['list_id'], null, { kind: 'single', totalKeys: ['total_items'] }),
  ];
  return {
    name: 'test-type',
    aliases: [],
    title: 'Test type',
    id: '11111111-2222-3333-4444-555555555555',
    contentHash: '0'.repeat(64),
    todos: [],
    rateLimit: { requestsPerSecond: 1000, concurrency: 8 },
    errors,
    credentials: [],
    settings: new Map(),
    upstream: null,
    entities: new Map(entities.map((each) => [each.name, each])),
  };
}

function entity(name: string, list: string[], get: string[] | null, pagination: Pagination): Entity {
  const actions = new Map<'list' | 'get', Action>([['list', action(list, false)]]);
  if (get !== null) actions.set('get', action(get, true));
  const table = { entity: entityName(name), columns: [{ name: 'id', type: 'string' } as const], key: ['id'] };
  return {
    name: entityName(name),
    draft: null,
    description: null,
    descriptions: new Map(),
    derived: [],
    rename: new Map(),
    records: null,
    empty: null,
    cut: null,
    windows: null,
    first: null,
    fields: new Map([['id', 'string']]),
    key: ['id'],
    ignored: new Set(),
    volatile: [],
    filledFrom: new Map(),
    reveals: new Map(),
    references: new Map(),
    searchable: new Map(),
    actions,
    pagination,
    order: null,
    whole: [],
    growsOnly: false,
    trustsTotal: true,
    incremental: null,
    deletes: 'sweep',
    unlisted: [],
    window: null,
    fixedParams: {},
    at: new Map(),
    only: [],
    each: new Map(),
    inject: new Map(),
    parents: [],
    recursive: null,
    explode: null,
    table,
    explodedTable: null,
    mask: null,
  };
}

function action(names: string[], isRequired: boolean): Action {
  return {
    params: new Map(names.map((name) => [name, param(isRequired)])),
    key: new Map(),
    file: null,
    isDirectOnly: false,
  };
}

function param(required: boolean): Param {
  return { type: 'string', required, enum: null, default: null, min: null, max: null, aboveMax: 'cap' };
}
