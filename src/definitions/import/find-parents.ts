import type { Sources } from './modes.ts';
import type { Operation } from './operation.ts';
import type { Parameter } from './parameter.ts';
import { linkParent, parentCandidates, type KnownParent, type ParentLink } from './parents.ts';
import type { FieldType } from './schemas.ts';

/** What became of another entity; a text says why it cannot be a parent. */
export type ParentOf = (entity: string) => KnownParent | string;

interface ParentsFound {
  readonly found: readonly ParentLink[];
  /** Parameters that no entity has values of. */
  readonly missing: readonly Parameter[];
  readonly refused: string | null;
}

/** The ways to find the listings of an entity whose required parameters are `open`. */
export function findParents(
  list: Operation,
  open: readonly Parameter[],
  own: ReadonlyMap<string, FieldType>,
  { service, listings }: Sources,
  parentOf: ParentOf,
): ParentsFound {
  const scoped = open.filter(({ name }) => service.scoped.has(name));
  const free = open.filter(({ name }) => !service.scoped.has(name));
  const candidates = parentCandidates(list, free, service.relationships, listings).filter(
    ({ parent }) => parent !== list.entity,
  );
  const hasCandidate = ({ name }: Parameter): boolean => candidates.some(({ param }) => param === name);
  if (candidates.length === 0) return { found: [], missing: open, refused: null };
  const problems: string[] = [];
  const found = new Map<string, ParentLink>();
  const missing = new Set(scoped);
  for (const candidate of candidates) {
    if (found.has(candidate.parent)) continue;
    const parent = parentOf(candidate.parent);
    const way =
      typeof parent === 'string'
        ? `its parent ${candidate.parent} ${parent}`
        : linkParent(candidate, parent, free, candidates, own);
    if (typeof way === 'string') {
      problems.push(way);
      continue;
    }
    const elsewhere = way.unresolved.find(hasCandidate);
    if (elsewhere === undefined) {
      found.set(candidate.parent, way.link);
      for (const param of way.unresolved) missing.add(param);
    } else {
      problems.push(
        `it has two independent parents: no record of ${candidate.parent} has a value of ${elsewhere.name}`,
      );
    }
  }
  return {
    found: [...found.values()],
    missing: [...missing],
    refused: found.size === 0 ? (problems[0] ?? 'its parents cannot be read') : null,
  };
}
