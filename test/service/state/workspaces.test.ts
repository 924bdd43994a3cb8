import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { ServiceState } from '../../../src/service/state/open-service-state.ts';
import type { WorkspaceQuery } from '../../../src/service/state/workspaces.ts';
import { addApplication, manualClock, openTestState } from '../../support/service/open-test-state.ts';

let state: ServiceState;
let clock: ReturnType<typeof manualClock>;
let acme: string;
let other: string;
beforeEach(() => {
  clock = manualClock();
  state = openTestState({ clock });
  acme = addApplication(state, 'acme').organizationId;
  other = addApplication(state, 'other').organizationId;
});
afterEach(() => state[Symbol.dispose]());

const everything: WorkspaceQuery = { nameContains: null, status: null, limit: 100, after: null };
const names = (query: Partial<WorkspaceQuery> = {}, organization = acme): readonly string[] =>
  state.workspaces.list(organization, { ...everything, ...query }).map(({ name }) => name);
const missing = '00000000-0000-4000-8000-000000000000';

describe('workspaces', () => {
  it('come into being by their name, once in each organization, and case counts', () => {
    const first = state.workspaces.ensure(acme, 'Sales');
    expect(first).toEqual({
      id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-4/) as string,
      organizationId: acme,
      name: 'Sales',
      status: 'active',
      isCacheEnabled: true,
      createdAt: '2026-01-01T00:00:00.000Z',
      updatedAt: '2026-01-01T00:00:00.000Z',
    });
    expect(state.workspaces.ensure(acme, 'Sales')).toEqual(first);
    expect(state.workspaces.ensure(acme, 'sales').id).not.toBe(first.id);
    expect(state.workspaces.ensure(other, 'Sales').id).not.toBe(first.id);
    expect(state.workspaces.byName(acme, 'Sales')).toEqual(first);
    expect(names({}, other)).toEqual(['Sales']);
  });

  it('of another organization are neither found nor changed nor deleted', () => {
    const { id } = state.workspaces.ensure(acme, 'w');
    expect(state.workspaces.byId(other, id)).toBeNull();
    expect(state.workspaces.byName(other, 'w')).toBeNull();
    expect(state.workspaces.update(other, id, { name: 'stolen' })).toBeNull();
    expect(state.workspaces.delete(other, id)).toBeNull();
    expect(state.workspaces.byId(acme, id)?.name).toBe('w');
    expect(() => names({ after: id }, other)).toThrow(/names no workspace/);
  });

  it('are listed in the order of their creation, page by page, though one in between is deleted', () => {
    const ids = ['b', 'a', 'd', 'c', 'e'].map((name) => state.workspaces.ensure(acme, name).id);
    expect(names({ limit: 2 })).toEqual(['b', 'a']);
    state.workspaces.delete(acme, ids[1] ?? '');
    expect(names({ limit: 2, after: ids[1] ?? '' })).toEqual(['d', 'c']);
    expect(names({ limit: 2, after: ids[3] ?? '' })).toEqual(['e']);
    expect(names({ after: ids[4] ?? '' })).toEqual([]);
    expect(() => names({ after: missing })).toThrow(/names no workspace/);
    // A day later no client can still be in the middle of a listing.
    clock.pass(86_400_001);
    state.workspaces.delete(acme, ids[0] ?? '');
    expect(() => names({ after: ids[1] ?? '' })).toThrow(/names no workspace/);
  });

  it('are filtered by a part of the name in any case, to the letter, and by status', () => {
    for (const name of ['Größe 100%', 'größer', 'under_score', 'Other']) state.workspaces.ensure(acme, name);
    expect(names({ nameContains: 'GRÖSSE' })).toEqual([]);
    expect(names({ nameContains: 'GRÖ' })).toEqual(['Größe 100%', 'größer']);
    expect(names({ nameContains: 'gro\u0308' })).toEqual(['Größe 100%', 'größer']);
    expect(names({ nameContains: '%' })).toEqual(['Größe 100%']);
    expect(names({ nameContains: '_' })).toEqual(['under_score']);
    expect(names({ nameContains: "' OR 1=1 --" })).toEqual([]);
    const { id } = state.workspaces.ensure(acme, 'Other');
    state.workspaces.update(acme, id, { status: 'inactive' });
    expect(names({ status: 'inactive' })).toEqual(['Other']);
    expect(state.workspaces.stats(acme)).toEqual({ active: 3, inactive: 1 });
    expect(state.workspaces.stats(other)).toEqual({ active: 0, inactive: 0 });
  });

  it('change in what is given and nothing else', () => {
    const workspace = state.workspaces.ensure(acme, 'w');
    clock.pass(1000);
    const renamed = { ...workspace, name: 'v', updatedAt: '2026-01-01T00:00:01.000Z' };
    expect(state.workspaces.update(acme, workspace.id, { name: 'v' })).toEqual(renamed);
    expect(state.workspaces.update(acme, workspace.id, { isCacheEnabled: false })).toEqual({
      ...renamed,
      isCacheEnabled: false,
    });
    expect(names({ nameContains: 'V' })).toEqual(['v']);
    expect(state.workspaces.update(acme, missing, {})).toBeNull();
  });

  it('cannot take the name of another one', () => {
    const { id } = state.workspaces.ensure(acme, 'w');
    state.workspaces.ensure(acme, 'taken');
    expect(() => state.workspaces.update(acme, id, { name: 'taken' })).toThrow(
      expect.objectContaining({ status: 409 }) as Error,
    );
    expect(state.workspaces.update(acme, id, { name: 'w' })?.name).toBe('w');
  });

  it('with connectors are not deleted', () => {
    const { id } = state.workspaces.ensure(acme, 'w');
    const connector = state.connectors.create({
      organizationId: acme,
      workspaceId: id,
      definition: 'd',
      name: 'n',
      replicationConfig: {},
      credentials: null,
    });
    expect(() => state.workspaces.delete(acme, id)).toThrow(
      expect.objectContaining({ status: 409 }) as Error,
    );
    state.connectors.delete(acme, connector.id);
    expect(state.workspaces.delete(acme, id)).toBe('2026-01-01T00:00:00.000Z');
    expect(state.workspaces.delete(acme, id)).toBeNull();
    expect(state.workspaces.ensure(acme, 'w').id).not.toBe(id);
  });

  it.each(['', ' ', 'a\u0000b', 'a\nb', 'a\u202eb', '\udc00', 'x'.repeat(256)])(
    'are not called %j',
    (name) => {
      expect(() => state.workspaces.ensure(acme, name)).toThrow(
        expect.objectContaining({ status: 400 }) as Error,
      );
      const { id } = state.workspaces.ensure(acme, 'w');
      expect(() => state.workspaces.update(acme, id, { name })).toThrow(
        /Expected as the name of a workspace/,
      );
      expect(names()).toEqual(['w']);
    },
  );
});
