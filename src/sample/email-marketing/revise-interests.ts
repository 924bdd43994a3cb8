import { diceFor } from '../dice.ts';
import { kind } from './kinds.ts';
import { activeLists, takeTurns, type MailingWork, type RevisionUnderWay } from './mailing-work.ts';
import type { Interest, InterestCategory } from './plan-interests.ts';

/**
 * In turns of three: a category with two interests and an interest of an older category are added, deleted and brought
 * back; nobody has them. Every revision renames a category of the beginning and an interest in it.
 */
export function reviseInterests(work: MailingWork, { revision }: RevisionUnderWay): void {
  const sorted = activeLists(work).filter(({ list }) => list.categories.length > 0);
  const entry = sorted[revision % Math.max(1, sorted.length)];
  takeTurns(work, 'interest', revision, () => {
    if (entry === undefined) return [];
    const { list } = entry;
    const dice = diceFor(work.seed, kind.interestRevision, revision, list.index);
    const nobodys = (name: string, displayOrder: number): Interest => ({
      id: dice.hex(10),
      name,
      displayOrder,
      stride: null,
    });
    const category: InterestCategory = {
      id: dice.hex(10),
      title: `Asked since revision ${revision}`,
      type: 'radio',
      displayOrder: list.categories.length,
      interests: [nobodys('Yes', 1), nobodys('No', 2)],
    };
    const further = nobodys(`Also since revision ${revision}`, 10 + revision);
    entry.list = {
      ...list,
      categories: [
        ...list.categories.map((older, place) =>
          place === 0 ? { ...older, interests: [...older.interests, further] } : older,
        ),
        category,
      ],
    };
    return [category.id, further.id];
  });
  if (entry === undefined) return;
  const { list } = entry;
  entry.list = {
    ...list,
    categories: list.categories.map((category, place) =>
      place > 0 ? category : renamed(category, revision),
    ),
  };
}

function renamed(category: InterestCategory, revision: number): InterestCategory {
  return {
    ...category,
    title: `Preferences (${revision})`,
    interests: category.interests.map((interest, place) =>
      place === 0 ? { ...interest, name: `Giving (${revision})` } : interest,
    ),
  };
}
