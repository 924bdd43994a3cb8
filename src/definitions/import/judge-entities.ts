import type { Mode, Sources } from './modes.ts';
import type { Operation } from './operation.ts';
import type { ParentOf } from './find-parents.ts';
import { planEntity, type EntityPlan, type Outcome } from './plan-entity.ts';
import type { KnownParent } from './parents.ts';
import type { FieldType } from './schemas.ts';

/** What became of every entity with a listing, in the order of a definition: parents above their children. */
export function judgeEntities(mode: Mode, sources: Sources): ReadonlyMap<string, Outcome> {
  const found = new Map<string, Outcome>();
  const open = new Set<string>();
  const listByEntity = new Map(sources.listings.map((list) => [list.entity, list]));
  const twice = sameRequests(sources);
  const judge = (list: Operation): Outcome => {
    const { entity } = list;
    const known = found.get(entity);
    if (known !== undefined) return known;
    open.add(entity);
    const other = twice.get(entity);
    const outcome: Outcome =
      other === undefined
        ? planEntity(list, mode, sources, parentOf)
        : { kind: 'refused', why: `its request is that of ${other}: both would have the same records` };
    open.delete(entity);
    found.set(entity, outcome);
    return outcome;
  };
  const parentOf: ParentOf = (entity) => {
    const list = listByEntity.get(entity);
    if (list === undefined) return 'has no listing in the file';
    if (open.has(entity)) return 'is found by way of it: parents form a cycle';
    const outcome = judge(list);
    if (outcome.kind === 'converted') return asParent(outcome.plan);
    return outcome.kind === 'refused' ? `cannot be read: ${outcome.why}` : 'is not chosen';
  };
  for (const list of sources.listings) judge(list);
  return found;
}

function asParent({ entity, fields, injected, key, parents, list, fixed }: EntityPlan): KnownParent {
  const own = fields.declared.map(({ name, type }): readonly [string, FieldType] => [name, type]);
  const columns = new Map([...injected, ...own]);
  const byParam = parents.flatMap(({ inject }) => [...inject]);
  const same = list.params
    .filter(({ name, isRequired }) => isRequired && columns.has(name) && !fixed.has(name))
    .map(({ name }): readonly [string, string] => [name, name]);
  return {
    entity,
    fields: columns,
    columnBySent: new Map(fields.declared.map(({ sent, name }) => [sent, name])),
    columnByParam: new Map([...same, ...byParam]),
    key,
  };
}

/** Of entities that would ask for the same records: another one that does. */
function sameRequests({ listings }: Sources): ReadonlyMap<string, string> {
  const entitiesByRequest = new Map<string, string[]>();
  for (const list of listings) {
    const request = requestText(list);
    const others = entitiesByRequest.get(request);
    if (others === undefined) entitiesByRequest.set(request, [list.entity]);
    else others.push(list.entity);
  }
  const groups = [...entitiesByRequest.values()].filter((entities) => entities.length > 1);
  return new Map(
    groups.flatMap((entities) =>
      entities.map((entity) => [entity, entities.find((other) => other !== entity) ?? ''] as const),
    ),
  );
}

/** Equal for equal requests: what is sent with every call, and where in its answer the records are. */
function requestText(list: Operation): string {
  const { method, path, params, body, records, filter } = list;
  const sent = params.map(({ name, place, fallback, isRequired, at }) => {
    return [place, at ?? name, fallback ?? null, isRequired];
  });
  const inOrder = sent.map((one) => JSON.stringify(one)).toSorted();
  return JSON.stringify([method, path, inOrder, body.fixed, records?.path, records?.wrapped, filter]);
}
