/** A module that forgot its default export. */
export const agent = {};
