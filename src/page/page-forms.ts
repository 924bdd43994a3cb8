import { html, type SafeHtml } from '@remix-run/html-template';
import * as z from 'zod';

/** A field of a form. `attributes`: those of its input, besides its name. */
export function inputField(
  name: string,
  label: SafeHtml | string,
  hint: SafeHtml | string = '',
  attributes: Readonly<Record<string, string>> = {},
): SafeHtml {
  const described = String(hint) === '' ? {} : { 'aria-describedby': `${name}-hint` };
  return html`<p class="field">
    <label for="${name}">${label}</label> ${input(name, { ...attributes, ...described })}
    ${String(hint) === '' ? '' : html`<span class="hint" id="${name}-hint">${hint}</span>`}
  </p>`;
}

/** Attributes of a field in which a secret is typed. */
export const typedSecret = { type: 'password', autocomplete: 'new-password' } as const;

/** A field to type a search into; only screen readers read its label. */
export function searchBox(
  name: string,
  label: string,
  attributes: Readonly<Record<string, string>>,
): SafeHtml {
  return html`<label class="unseen" for="${name}">${label}</label
    >${input(name, { type: 'search', ...attributes })}`;
}

function input(name: string, attributes: Readonly<Record<string, string>>): SafeHtml {
  const all = Object.entries({ id: name, name, autocomplete: 'off', ...attributes });
  return html`<input ${all.map(([key, value]) => html` ${key}="${value}"`)} />`;
}

/** Values that a form sends besides those that a person gives, without the empty ones. */
export function hiddenFields(values: Readonly<Record<string, string>>): SafeHtml {
  const all = Object.entries(values).filter(([, value]) => value !== '');
  return html`${all.map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`)}`;
}

/** Values of an address. An invalid one counts as absent; of several with one name the first counts. */
export const param = {
  text: first(z.string().max(200).catch('')),
  address: first(z.string().max(2_000).catch('')),
  oneOf: <const Name extends string>(names: readonly Name[]) => first(z.enum(names).nullable().catch(null)),
  number: (least: number, most: number) => first(z.coerce.number().int().min(least).max(most).catch(least)),
};

function first<Schema extends z.ZodType>(schema: Schema) {
  return z.preprocess((value: unknown): unknown => (Array.isArray(value) ? value[0] : value), schema);
}

/** `?q=shop&state=late`, of the values that are not empty; without any, an empty text. */
export function searchOf(values: Readonly<Record<string, string | null>>): string {
  const params = new URLSearchParams();
  for (const [name, text] of Object.entries(values)) if (text) params.set(name, text);
  return params.size === 0 ? '' : `?${params.toString()}`;
}
