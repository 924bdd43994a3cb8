import { html, type SafeHtml } from '@remix-run/html-template';
import { count, printable } from '../telemetry/format.ts';

/** The way from the first page to this one, whose own name stands last. */
export function crumbs(
  links: readonly (readonly [address: string, text: string])[],
  here: SafeHtml | string,
) {
  return html`<nav class="crumbs soft" aria-label="Path">
    ${links.map(([address, text]) => html`<a href="${address}">${text}</a> / `)}${here}
  </nav>`;
}

/** The head of a page: its answer as the heading, a line of facts, and acts. */
export function head(
  heading: SafeHtml | string,
  soft: SafeHtml | string,
  acts: SafeHtml | string = '',
): SafeHtml {
  return html`<div class="head">
    <div>
      <h1>${heading}</h1>
      ${String(soft) === '' ? '' : html`<p class="soft">${soft}</p>`}
    </div>
    ${String(acts).trim() === '' ? '' : html`<div class="acts">${acts}</div>`}
  </div>`;
}

/** Box that says what is wrong, why, and what to do; `acts` are the buttons that help. */
export function callout(
  look: 'bad' | 'warn' | 'run' | '',
  label: string,
  content: SafeHtml,
  acts: SafeHtml | string = '',
): SafeHtml {
  return html`<section class="callout ${look}" aria-label="${label}">
    <div>${content}</div>
    ${String(acts).trim() === '' ? '' : html`<div class="acts">${acts}</div>`}
  </section>`;
}

/** Numbers in a row of boxes: a name, and a value with its unit in `<small>`; those without a value are left out. */
export function stats(list: readonly (readonly [string, SafeHtml | string | null])[]): SafeHtml {
  const box = ([name, value]: (typeof list)[number]): SafeHtml =>
    html`<div>
      <dt>${name}</dt>
      <dd>${value}</dd>
    </div>`;
  return html`<dl class="stats">${list.filter(([, value]) => value !== null).map(box)}</dl>`;
}

/** Links that choose a part of a list, each with the number of its members where that is known, after `of`. */
export function chips(
  label: string,
  list: readonly (readonly [address: string, text: string, isHere: boolean, number?: number | null])[],
  of = '',
): SafeHtml {
  return html`<nav class="chips" aria-label="${label}">
    ${list.map(([address, text, isHere, number]) => {
      const here = isHere ? html`aria-current="true"` : '';
      const many = typeof number === 'number' ? html` <span class="soft">${of}${count(number)}</span>` : '';
      return html`<a class="chip" href="${address}" ${here}>${text}${many}</a> `;
    })}
  </nav>`;
}

/** Parts of a line that are not empty, with a comma between them. */
export function joined(parts: readonly (SafeHtml | string)[], between = ', '): SafeHtml {
  const some = parts.filter((part) => part !== '');
  return html`${some.map((part, index) => (index === 0 ? part : html`${between}${part}`))}`;
}

/** Says why sinks are left out. */
export function unreadableSinks(problems: readonly string[]): SafeHtml {
  const box = (one: string): SafeHtml =>
    callout('bad', 'A sink cannot be read', html`<p>${printable(one)}</p>`);
  return html`${problems.map(box)}`;
}

/** A list of what needs a person: its state, its name, why, and what helps. */
export function needs(lines: readonly (readonly (SafeHtml | string)[])[], label = ''): SafeHtml {
  const line = ([shown = '', name = '', why = '', act = '']: (typeof lines)[number]): SafeHtml =>
    html`<li>
      ${shown}${name}
      <p>${why}</p>
      ${act}
    </li>`;
  return html`<ul class="panel needs" ${label === '' ? '' : html`aria-label="${label}"`}>
    ${lines.map(line)}
  </ul>`;
}

/** Lines of a list, each an `<li>`. */
export function list(lines: readonly SafeHtml[], look = ''): SafeHtml {
  return html`<ul ${classOf(look)}>
    ${[...lines]}
  </ul>`;
}

/** A reason in a column that is cut: its title has all of it. */
export function reasonCell(why: string, isSoft: boolean): SafeHtml {
  return html`<span class="${isSoft ? 'soft' : ''}" title="${why}">${why}</span>`;
}

/** A short text that shows more on a click. */
export function disclosed(text: string, more: SafeHtml): SafeHtml {
  return html`<details class="more">
    <summary>${text}</summary>
    ${more}
  </details>`;
}

/** Lines as the terminal shows them, each a paragraph. */
export function textLines(lines: readonly string[]): SafeHtml {
  return html`${lines.map((line) => html`<p>${printable(line.replace(/^\s*(! )?/, ''))}</p>`)}`;
}

export function classOf(look: string): SafeHtml | '' {
  return look === '' ? '' : html`class="${look}"`;
}

/** Facts by name; those without a text are left out. */
export function facts(list: readonly (readonly [string, SafeHtml | string | null])[]): SafeHtml {
  return html`<dl class="facts">
    ${list.map(([what, text]) =>
      text === null
        ? ''
        : html`<dt>${what}</dt>
            <dd>${text}</dd>`,
    )}
  </dl>`;
}
