import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/core/json.ts';
import { createSampleAccount } from '../../src/sample/sample-service.ts';
import { sampleTruth } from '../support/sample-truth.ts';
import { emailMarketing, workspaceNotes } from '../support/definitions/specification.ts';
import {
  mailing,
  notes,
  objects,
  serveApi,
  text,
  type Answer,
  type ServedApi,
} from '../support/service/served-api.ts';

let api: ServedApi;
beforeAll(async () => {
  api = await serveApi();
});
afterAll(() => api.service.close());

interface Operation {
  readonly connector: string;
  readonly entity: string;
  readonly action: string;
  readonly params: readonly Param[];
}

interface Param {
  readonly name: string;
  readonly isRequired: boolean;
  readonly type: string;
  readonly values: readonly string[];
}

const paramPattern = /^(?<name>\w+)(?<required>!)?(?::(?<type>\w+))?(?:=(?<values>.+))?$/;

/** Every operation of the specification with its parameters, as `name!:type=value|value`. */
const operations: readonly Operation[] = [
  { connector: mailing, entities: emailMarketing },
  { connector: notes, entities: workspaceNotes },
].flatMap(({ connector, entities }) =>
  Object.entries(entities).flatMap(([entity, { actions }]) =>
    Object.entries(actions).map(([action, params]) => ({
      connector,
      entity,
      action,
      params: params.split(' ').map((one) => {
        const { name = '', required, type = 'string', values } = paramPattern.exec(one)?.groups ?? {};
        return { name, isRequired: required !== undefined, type, values: values?.split('|') ?? [] };
      }),
    })),
  ),
);

type NamedParam = readonly [entity: string, action: string, name: string, param: Param, operation: Operation];

function paramsWhere(isWanted: (param: Param) => boolean): readonly NamedParam[] {
  return operations.flatMap((operation) =>
    operation.params
      .filter(isWanted)
      .map((param) => [operation.entity, operation.action, param.name, param, operation] as const),
  );
}

const account = createSampleAccount({ definitionName: 'email-marketing', seed: 7, size: 'tiny' });
const notesAccount = createSampleAccount({ definitionName: 'workspace-notes', seed: 7, size: 'tiny' });

/** Values that name something that is there, for every required parameter. */
const known: Readonly<Record<string, JsonValue>> = {
  ...parentsOf('interests'),
  ...parentsOf('segment_members'),
  ...parentsOf('unsubscribes'),
  ...idOf('interests', 'interest_id'),
  ...idOf('list_members', 'subscriber_hash'),
  ...idOf('users', 'user_id'),
  ...idOf('pages', 'page_id'),
  ...idOf('pages', 'block_id'),
  ...idOf('data_sources', 'data_source_id'),
  query: {},
};

function parentsOf(entity: string): JsonObject {
  const [first] = sampleTruth(account, entity);
  return first?.params ?? {};
}

function idOf(entity: string, param: string): JsonObject {
  const [first] = sampleTruth(entity in workspaceNotes ? notesAccount : account, entity);
  return { [param]: first?.record['id'] ?? null };
}

const ask = ({ connector, entity, action, params }: Operation, given: JsonObject): Promise<Answer> => {
  const required = params.filter(({ isRequired }) => isRequired);
  const whole = Object.fromEntries(required.map(({ name }) => [name, known[name] ?? null]));
  return api.execute(connector, { entity, action, params: { ...whole, ...given } });
};

/** 400 with the parameter's name, and not because of another one. */
async function expectRefused(operation: Operation, name: string, value: JsonValue): Promise<void> {
  const { status, body } = await ask(operation, { [name]: value });
  expect([value, status, text(objects(body['errors'])[0]?.['field'])]).toEqual([
    value,
    400,
    `params.${name}`,
  ]);
}

describe('an operation of the specification', () => {
  // Proves specification 2.1.3, 4.7.1, 4.8.1, 4.8.2
  it.each(operations.map((operation) => [operation.entity, operation.action, operation] as const))(
    '%s %s is answered when it is given what it requires',
    async (_entity, action, operation) => {
      const { status, body } = await ask(operation, {});
      // No store is filled here: a valid search reports that.
      expect([status, objects(body['errors'] ?? [])[0]?.['error_code']]).toEqual(
        action === 'context_store_search' ? [400, 'context_store_not_ready'] : [200, undefined],
      );
    },
  );

  // Proves specification 2.1.2, 4.4.2, 4.6.2, 4.7.2
  it.each(paramsWhere(({ isRequired }) => isRequired))(
    '%s %s is refused without %s',
    async (_entity, _action, name, _param, operation) => {
      await expectRefused(operation, name, null);
      const { connector, entity, action } = operation;
      const others = operation.params.filter((other) => other.isRequired && other.name !== name);
      const params = Object.fromEntries(others.map((other) => [other.name, known[other.name] ?? null]));
      const { status, body } = await api.execute(connector, { entity, action, params });
      expect([status, objects(body['errors'])[0]?.['field']]).toEqual([400, `params.${name}`]);
    },
  );

  // Proves specification 3.4-6, 4.4.2, 4.7.4
  it.each(paramsWhere(({ values }) => values.length > 0))(
    '%s %s takes each specified value of %s and refuses every other one',
    async (_entity, _action, name, { values }, operation) => {
      for (const value of values) {
        expect([value, (await ask(operation, { [name]: value })).status]).toEqual([value, 200]);
      }
      const [first = ''] = values;
      const swapped = first === first.toUpperCase() ? first.toLowerCase() : first.toUpperCase();
      for (const value of ['nope', '', swapped, `${first} `, `${first},${first}`]) {
        await expectRefused(operation, name, value);
      }
    },
  );

  // Proves specification 4.4.2, 4.7.2
  it.each(paramsWhere(({ type }) => type !== 'string'))(
    '%s %s refuses %s of another type',
    async (_entity, _action, name, { type }, operation) => {
      const values = { integer: 7, boolean: true, object: {}, array: [] };
      for (const [other, value] of Object.entries(values)) {
        if (other !== type) await expectRefused(operation, name, value);
      }
      await expectRefused(operation, name, 'text');
    },
  );
});

/** What the hosted service offers of other connectors. */
const others = ['create', 'update', 'delete', 'api_search', 'authorize', 'context_store_sql_query', 'get'];

const entities = [
  ...new Map(operations.map(({ connector, entity }) => [entity, [connector, entity] as const])).values(),
];

// Proves specification 4.4.10, 4.7.16
it.each(entities)('%s %s has no other actions, so no writes', async (connector, entity) => {
  const specified = operations.filter((one) => one.entity === entity).map(({ action }) => action);
  for (const action of [...others, 'download'].filter((name) => !specified.includes(name))) {
    const { status, body } = await api.execute(connector, { entity, action, params: known });
    expect([action, status, objects(body['errors'])[0]?.['error_code']]).toEqual([
      action,
      400,
      'unsupported_action',
    ]);
  }
});
