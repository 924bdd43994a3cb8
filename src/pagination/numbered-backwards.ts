import { rememberedKeys, type ListedPage } from './listing-end.ts';
import {
  beginPlain,
  endNumbered,
  goTo,
  type NumberedPosition,
  type NumberedStep,
} from './numbered-position.ts';

/** Below this many records at the end, all of them may have moved before the page in front is read. */
const fewestAtEnd = 10;
/** Times that what has come to the end meanwhile is read. */
const mostRounds = 4;

/**
 * Towards the end: from the page that the total takes for the last one on, until one is not full. Whatever contradicts
 * the total, or shows that the size is not heard, is left to a walk forwards.
 */
export function nextUp(position: NumberedPosition, { marks, mark, hasMore }: ListedPage): NumberedStep {
  const { page, length, pageMark, firstMark, stopAt } = position;
  const received = marks.length;
  const total = position.total ?? 0;
  const start = page * length;
  if (received > length) return beginPlain(position, { isFixed: true });
  const isAgain = received > 0 && (mark === pageMark || (page > 0 && mark === firstMark));
  const isBehind = received === 0 || (isAgain && total <= start);
  if (isAgain && !isBehind) return beginPlain(position);
  // A full page may be the last one: the first round makes sure that the total is not too low.
  const isLast = position.rounds > 0 && total <= start + received;
  if (!isBehind && received === length && !isLast && hasMore !== false) {
    return goTo({ ...position, page: page + 1, pageMark: mark });
  }
  if (hasMore === true) return beginPlain(position);
  const reach = isBehind ? start : start + received;
  if (total > reach) return beginPlain(position);
  const isFirstAll = position.pages === 2 && position.reach === length;
  if (isBehind && isFirstAll) return endNumbered(position, true, { isSingle: true });
  const shown = isBehind ? [] : marks;
  const top: NumberedPosition = {
    ...position,
    top: page,
    reach,
    recent: shown.slice(0, rememberedKeys),
    tail: shown.slice(-rememberedKeys),
    // Shorter than it should be by its place: pages may have become shorter, and their numbers mean other rows.
    isDisturbed: !isBehind && received < length && total < reach && total !== received,
    pageMark: isBehind ? '' : mark,
  };
  if (page === 0 || shown.some((one) => stopAt.includes(one))) return endRound(top);
  const isDisturbed = top.isDisturbed || shown.length < fewestAtEnd;
  return goTo({ ...top, phase: 'down', page: page - 1, isDisturbed });
}

/**
 * From the end to the first page, or to what stood at the end in the round before. Records only leave, or move to the
 * end: those that are not read yet come towards the walk, and none passes it but to the end. Where none has left in
 * front of a page, the page ends where the one behind it begins; a known record shows that one has, and then what
 * stands at the end now is read as well.
 */
export function nextDown(position: NumberedPosition, { marks, mark }: ListedPage): NumberedStep {
  const { page, length, recent, tail, stopAt, firstMark } = position;
  const received = marks.length;
  if (received > length) return beginPlain(position, { isFixed: true });
  const isAgain = received > 0 && (mark === position.pageMark || (page > 0 && mark === firstMark));
  if (isAgain || (received < length && (position.total ?? 0) > page * length + received)) {
    return beginPlain(position);
  }
  const known = new Set(recent);
  const next: NumberedPosition = {
    ...position,
    page: page - 1,
    isDisturbed: position.isDisturbed || received < length || marks.some((one) => known.has(one)),
    recent: [...marks, ...recent].slice(0, rememberedKeys),
    tail: tail.length < rememberedKeys ? [...marks, ...tail].slice(-rememberedKeys) : tail,
    pageMark: mark,
  };
  return page === 0 || marks.some((one) => stopAt.includes(one)) ? endRound(next) : goTo(next);
}

function endRound(position: NumberedPosition): NumberedStep {
  const { reach, length, rounds, tail, distinct, isDisturbed } = position;
  const total = position.total ?? 0;
  const isGrown = total > reach;
  if ((isGrown || isDisturbed) && rounds < mostRounds) {
    return goTo({
      ...position,
      phase: 'up',
      page: Math.max(0, Math.floor((total - 1) / length)),
      rounds: rounds + 1,
      stopAt: tail,
      tail: [],
      recent: [],
      pageMark: '',
      isDisturbed: false,
    });
  }
  if (isGrown || (distinct !== null && total > distinct)) return beginPlain(position);
  // Records that came in front of the walk have pushed others behind it. A total that never moves and is below what
  // came would not show that.
  const isBlind = position.isSteady && distinct !== null && total < distinct;
  return endNumbered({ ...position, page: 0 }, !isDisturbed && position.risen === 0 && !isBlind);
}
