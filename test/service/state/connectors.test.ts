import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { NewConnector, StoredConnector } from '../../../src/service/state/connectors.ts';
import type { ServiceState } from '../../../src/service/state/open-service-state.ts';
import { addApplication, manualClock, openTestState } from '../../support/service/open-test-state.ts';

let state: ServiceState;
let clock: ReturnType<typeof manualClock>;
let acme: string;
let other: string;
let workspaceId: string;
beforeEach(() => {
  clock = manualClock();
  state = openTestState({ clock });
  acme = addApplication(state, 'acme').organizationId;
  other = addApplication(state, 'other').organizationId;
  workspaceId = state.workspaces.ensure(acme, 'w').id;
});
afterEach(() => state[Symbol.dispose]());

const create = (more: Partial<NewConnector> = {}): StoredConnector =>
  state.connectors.create({
    organizationId: acme,
    workspaceId,
    definition: 'email-marketing',
    name: 'Newsletter',
    replicationConfig: {},
    credentials: null,
    ...more,
  });

describe('connectors', () => {
  it('are stored with everything but their credentials in sight', () => {
    const connector = create({ replicationConfig: { start_date: '2024-01-01', deep: [1, { a: null }] } });
    expect(connector).toEqual({
      id: expect.stringMatching(/^[0-9a-f]{8}-/) as string,
      organizationId: acme,
      workspaceId,
      definition: 'email-marketing',
      name: 'Newsletter',
      replicationConfig: { start_date: '2024-01-01', deep: [1, { a: null }] },
      account: null,
      address: null,
      createdAt: '2026-01-01T00:00:00.000Z',
      updatedAt: '2026-01-01T00:00:00.000Z',
    });
    expect(state.connectors.byId(acme, connector.id)).toEqual(connector);
  });

  it('are listed in the order of their creation, of a workspace or a definition alone', () => {
    const second = state.workspaces.ensure(acme, 'second').id;
    create({ id: 'b' });
    create({ id: 'a', definition: 'workspace-notes' });
    create({ id: 'c', workspaceId: second });
    const ids = (filter: Parameters<ServiceState['connectors']['list']>[1]): readonly string[] =>
      state.connectors.list(acme, filter).map(({ id }) => id);
    expect(ids({})).toEqual(['b', 'a', 'c']);
    expect(ids({ workspaceId })).toEqual(['b', 'a']);
    expect(ids({ workspaceId, definition: 'workspace-notes' })).toEqual(['a']);
    expect(ids({ definition: "' OR 1=1 --" })).toEqual([]);
    expect(state.connectors.all().map(({ id }) => id)).toEqual(['b', 'a', 'c']);
  });

  it('of another organization are neither found nor changed nor deleted', () => {
    const { id } = create();
    expect(state.connectors.byId(other, id)).toBeNull();
    expect(state.connectors.list(other, {})).toEqual([]);
    expect(state.connectors.list(other, { workspaceId })).toEqual([]);
    expect(state.connectors.update(other, id, { name: 'stolen' })).toBeNull();
    expect(state.connectors.delete(other, id)).toBe(false);
    expect(() => create({ organizationId: other })).toThrow('There is no such workspace.');
    expect(state.connectors.byId(acme, id)?.name).toBe('Newsletter');
  });

  it('change in what is given and keep the rest', () => {
    const connector = create({ replicationConfig: { a: 1 } });
    clock.pass(1000);
    expect(state.connectors.update(acme, connector.id, { name: 'New' })).toEqual({
      ...connector,
      name: 'New',
      updatedAt: '2026-01-01T00:00:01.000Z',
    });
    expect(state.connectors.update(acme, connector.id, { replicationConfig: {} })).toMatchObject({
      name: 'New',
      replicationConfig: {},
    });
    expect(state.connectors.delete(acme, connector.id)).toBe(true);
    expect(state.connectors.delete(acme, connector.id)).toBe(false);
    expect(state.connectors.update(acme, connector.id, { name: 'x' })).toBeNull();
  });

  it('do not share an id, across organizations neither', () => {
    create({ id: 'taken' });
    const theirs = state.workspaces.ensure(other, 'theirs').id;
    const taken = expect.objectContaining({ code: 'USAGE' }) as Error;
    expect(() => create({ id: 'taken' })).toThrow(taken);
    expect(() => create({ id: 'taken', organizationId: other, workspaceId: theirs })).toThrow(taken);
    expect(state.connectors.all()).toHaveLength(1);
  });

  it.each(['', '..', 'a/b', 'a b', '%2e', 'a\u0000', 'ü', 'x'.repeat(129)])('have no id like %j', (id) => {
    expect(() => create({ id })).toThrow(/1 to 128 letters/);
  });

  it.each(['', 'a\u0007', 'x'.repeat(256), '\ud800'])('have no name like %j', (name) => {
    expect(() => create({ name })).toThrow(expect.objectContaining({ status: 400 }) as Error);
    const { id } = create();
    expect(() => state.connectors.update(acme, id, { name })).toThrow(/Expected as the name of a connector/);
  });

  it('keep nothing of a change that failed', () => {
    const { id } = create({ replicationConfig: { a: 1 } });
    const cyclic: { self?: unknown } = {};
    cyclic.self = cyclic;
    expect(() => state.connectors.update(acme, id, { name: 'half', credentials: cyclic as never })).toThrow(
      RangeError,
    );
    expect(state.connectors.byId(acme, id)?.name).toBe('Newsletter');
    expect(state.connectors.credentials(acme, id)).toBeNull();
  });
});

describe('the audit log', () => {
  const note = (organizationId: string, target: string): void =>
    state.audit.note({ organizationId, clientId: 'c', kind: 'application' }, 'connector.created', target, [
      'name',
    ]);

  it('gives the newest entries of an organization first, and nothing of another', () => {
    note(acme, 'first');
    clock.pass(1000);
    note(acme, 'second');
    note(other, 'theirs');
    expect(state.audit.list(acme, 10)).toEqual([
      {
        at: '2026-01-01T00:00:01.000Z',
        organizationId: acme,
        actor: 'c',
        tokenKind: 'application',
        action: 'connector.created',
        target: 'second',
        fields: ['name'],
      },
      expect.objectContaining({ target: 'first', at: '2026-01-01T00:00:00.000Z' }),
    ]);
    expect(state.audit.list(acme, 1)).toHaveLength(1);
  });

  it('is bounded in number, age and size, and a busy organization pushes nothing of another out', () => {
    note(other, 'theirs');
    note(acme, 'x'.repeat(100_000));
    expect(state.audit.list(acme, 1)[0]?.target).toHaveLength(255);
    for (let written = 0; written < 10_300; written += 1) note(acme, `t${written}`);
    expect(state.audit.list(acme, 100_000)).toHaveLength(10_000);
    expect(state.audit.list(acme, 1)[0]?.target).toBe('t10299');
    expect(state.audit.list(other, 10)).toHaveLength(1);
    clock.pass(401 * 86_400_000);
    for (let written = 0; written < 100; written += 1) note(acme, 'later');
    expect(state.audit.list(acme, 100_000)).toHaveLength(100);
    expect(state.audit.list(other, 10)).toEqual([]);
  });
});
