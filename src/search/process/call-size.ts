import { SyncError } from '../../core/errors.ts';
import type { JsonObject, JsonValue } from '../../core/json.ts';

/** Above what any search may be, so that what is too much of what can be said where it is read. */
const maxDepth = 64;
const maxChars = 128 * 1024;

/**
 * Refuses parameters that are not worth handing to another process, where copying them would cost as much as they are large or
 * overflow the stack. Throws `SyncError` SEARCH_INVALID.
 */
export function checkCallSize(params: JsonObject): void {
  let chars = 0;
  const waiting: { readonly value: JsonValue; readonly depth: number }[] = [{ value: params, depth: 1 }];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { value, depth } = next;
    chars += typeof value === 'string' ? value.length : 1;
    if (typeof value === 'object' && value !== null) {
      if (depth > maxDepth) throw invalid(`it is nested deeper than ${maxDepth}`);
      for (const [name, member] of Object.entries(value)) {
        chars += Array.isArray(value) ? 1 : name.length;
        waiting.push({ value: member, depth: depth + 1 });
      }
    }
    if (chars > maxChars) throw invalid(`it has more than ${maxChars} characters`);
  }
}

function invalid(why: string): SyncError {
  return new SyncError(`A search of the usual size was expected, but ${why}. Ask for less in one search.`, {
    code: 'SEARCH_INVALID',
    recovery: 'stop',
    context: { path: 'query' },
  });
}
