"""Layered drawings of directed graphs: ranks, order, places, columns, routes. Plain numbers in, plain numbers out."""
